#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/whole_file.h"

namespace satformer {

Json parse_json(std::string_view text, std::string_view origin, ExitCode code) {
  // The parser takes a zero byte for the end, and what follows would be ignored.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) {
    fail(code, origin, ": not valid JSON: a zero byte at byte ", zero + 1);
  }
  constexpr int max_depth = 256;
  std::vector<std::set<std::string>> keys;
  std::string duplicate;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > max_depth) too_deep = true;
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() && !keys.back().insert(parsed.get<std::string>()).second &&
        duplicate.empty()) {
      duplicate = parsed.get<std::string>();
    }
    return !too_deep;
  };
  Json value;
  try {
    value = Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    std::size_t line = 1, column = 1;
    const std::size_t end = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
    for (std::size_t i = 0; i < end; ++i) {
      if (text[i] == '\n') {
        ++line;
        column = 1;
      } else {
        ++column;
      }
    }
    const std::string what = error.what();
    const auto colon = what.find(": ", std::min(what.find(", column "), what.size()));
    fail(code, origin, ":", line, ":", column,
         ": not valid JSON: ", colon == std::string::npos ? what : what.substr(colon + 2));
  } catch (const Json::out_of_range&) {
    fail(code, origin, ": a number is too large to be represented");
  }
  if (too_deep) fail(code, origin, ": JSON is nested deeper than ", max_depth, " levels");
  if (!duplicate.empty()) fail(code, origin, ": key '", duplicate, "' is given twice");
  return value;
}

Json read_json_file(const std::string& path, ExitCode code) { return parse_json(read_whole(path), path, code); }

namespace {

void visit_below(const Json& json, const std::string& prefix,
                 const std::function<void(const std::string&, const Json&)>& visit) {
  for (const auto& [key, value] : json.items()) {
    const std::string path = prefix.empty() ? key : concat(prefix, '.', key);
    if (value.is_object() && !value.empty()) {
      visit_below(value, path, visit);
    } else {
      visit(path, value);
    }
  }
}

}  // namespace

void visit_leaves(const Json& json, const std::function<void(const std::string& key, const Json& value)>& visit) {
  visit_below(json, "", visit);
}

std::string dotted_key(std::string pointer) {
  std::replace(pointer.begin(), pointer.end(), '/', '.');
  return pointer.substr(1);
}

}  // namespace satformer
