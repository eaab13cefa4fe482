#include "base/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/unicode.h"

namespace satformer {
namespace {

std::string type_name(const FieldPointer& value) {
  return std::visit(
      [](auto* pointer) -> std::string {
        using T = std::remove_pointer_t<decltype(pointer)>;
        if constexpr (std::is_same_v<T, bool>)
          return "true or false";
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return "an integer";
        else if constexpr (std::is_same_v<T, double>)
          return "a number";
        else if constexpr (std::is_same_v<T, std::string>)
          return "a string";
        else if constexpr (std::is_same_v<T, std::optional<std::int64_t>>)
          return "an integer or null";
        else if constexpr (std::is_same_v<T, std::optional<double>>)
          return "a number or null";
        else if constexpr (std::is_same_v<T, std::optional<std::string>>)
          return "a string or null";
        else if constexpr (std::is_same_v<T, NumberOrAuto>)
          return "a number, \"auto\" or null";
        else
          return "a list of integers";
      },
      value);
}

std::optional<std::int64_t> as_integer(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto u = json.get<std::uint64_t>();
    if (u > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<std::int64_t>(u);
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) {  // 1e9 is a float to JSON and an integer to a person
    const double d = json.get<double>();
    if (std::nearbyint(d) == d && std::abs(d) < 9e15) return static_cast<std::int64_t>(d);
  }
  return std::nullopt;
}

template <class T>
bool assign(T& out, const Json& json) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!json.is_boolean()) return false;
    out = json.get<bool>();
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    const auto value = as_integer(json);
    if (!value) return false;
    out = *value;
  } else if constexpr (std::is_same_v<T, double>) {
    if (!json.is_number() || !std::isfinite(json.get<double>())) return false;
    out = json.get<double>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!json.is_string()) return false;
    out = json.get<std::string>();
  } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
    if (!json.is_array()) return false;
    std::vector<std::int64_t> values;
    for (const auto& item : json) {
      const auto value = as_integer(item);
      if (!value) return false;
      values.push_back(*value);
    }
    out = std::move(values);
  } else if constexpr (std::is_same_v<T, NumberOrAuto>) {
    if (json.is_null() || json == "auto") {
      out = {std::nullopt, json.is_string()};
      return true;
    }
    double number = 0;
    if (!assign(number, json)) return false;
    out = {number, false};
  } else {  // optional
    if (json.is_null()) {
      out.reset();
      return true;
    }
    typename T::value_type inner{};
    if (!assign(inner, json)) return false;
    out = inner;
  }
  return true;
}

std::string plain(double number) {
  std::ostringstream out;
  out.precision(12);  // whole numbers in full
  out << number;
  return out.str();
}

void check_bounds(const Field& field, double number, const std::string& origin) {
  const FieldRules& rules = field.rules;
  const bool low = rules.min && (rules.open_min ? number <= *rules.min : number < *rules.min);
  const bool high = rules.max && (rules.open_max ? number >= *rules.max : number > *rules.max);
  if (!low && !high) return;
  std::string expected = "must be ";
  if (rules.min) expected += concat(rules.open_min ? "greater than " : "at least ", plain(*rules.min));
  if (rules.min && rules.max) expected += " and ";
  if (rules.max) expected += concat(rules.open_max ? "less than " : "at most ", plain(*rules.max));
  fail(ExitCode::config, origin, ": ", field.path, " = ", plain(number), " is out of range: it ", expected);
}

std::string environment_name(const std::string& path) {
  std::string name = "SATFORMER_";
  for (const char c : path) {
    if (c == '.')
      name += "__";
    else
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

// The value of an override or environment entry: JSON, or bare text. For a field of text all is text as it stands,
// but for a quoted JSON string and, where nothing is allowed, null.
Json parse_value(std::string_view text, const Field& field) {
  if (replace_invalid_utf8(text) != text) fail(ExitCode::config, field.path, ": the value given is not UTF-8");
  const bool nothing = text == "null" || text == "None" || text == "none";
  const bool optional_text = std::holds_alternative<std::optional<std::string>*>(field.value);
  if (optional_text || std::holds_alternative<std::string*>(field.value)) {
    if (optional_text && nothing) return nullptr;
    if (!text.starts_with('"')) return std::string(text);
  }
  try {
    return parse_json(text, "value");
  } catch (const Error&) {  // a bare word
    if (nothing) return nullptr;
    if (text == "True") return true;
    if (text == "False") return false;
    return std::string(text);
  }
}

}  // namespace

Json field_value(const Field& field) {
  return std::visit(
      [](auto* pointer) -> Json {
        using T = std::remove_pointer_t<decltype(pointer)>;
        if constexpr (std::is_same_v<T, NumberOrAuto>)
          return pointer->automatic ? Json("auto") : pointer->number ? Json(*pointer->number) : Json(nullptr);
        else if constexpr (requires(T t) { t.has_value(); })
          return *pointer ? Json(**pointer) : Json(nullptr);
        else
          return Json(*pointer);
      },
      field.value);
}

const Field* ConfigBinding::find(const std::string& path) const {
  const auto it = std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) { return f.path == path; });
  return it == fields_.end() ? nullptr : &*it;
}

std::vector<std::string> ConfigBinding::paths() const {
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(field.path);
  return names;
}

// Nearest field or section; a key known in another section alone is named before a merely similar one.
std::string ConfigBinding::suggest(const std::string& path) const {
  std::vector<std::string> names = paths(), same_key;
  const std::string key = path.substr(path.rfind('.') + 1);
  for (const Field& field : fields_) {
    if (field.path.ends_with("." + key)) same_key.push_back(field.path);
    for (auto dot = field.path.find('.'); dot != std::string::npos; dot = field.path.find('.', dot + 1)) {
      names.push_back(field.path.substr(0, dot));
    }
  }
  if (same_key.size() == 1) return concat(" Did you mean '", same_key[0], "'?");
  if (const std::optional<std::string> whole = nearest(path, names)) return concat(" Did you mean '", *whole, "'?");
  // A misspelt key in a section that was left out or is another one.
  std::vector<std::string> keys;
  for (const Field& field : fields_) keys.push_back(field.path.substr(field.path.rfind('.') + 1));
  const std::optional<std::string> found = nearest(key, keys);
  if (!found) return {};
  const auto at = std::find(keys.begin(), keys.end(), *found) - keys.begin();
  return concat(" Did you mean '", fields_[static_cast<std::size_t>(at)].path, "'?");
}

bool ConfigBinding::imply(const std::string& path, const Json& value, const std::string& source) {
  const Field* field = find(path);
  if (!field) fail(ExitCode::internal, "no configuration field '", path, "'");
  if (origins_.count(path)) return false;
  set(*field, value, source);
  return true;
}

void ConfigBinding::set(const Field& field, const Json& value, const std::string& origin) {
  const bool ok = std::visit([&](auto* pointer) { return assign(*pointer, value); }, field.value);
  if (!ok) {
    fail(ExitCode::config, origin, ": ", field.path, " must be ", type_name(field.value), ", not ", value.dump());
  }
  const auto bound = [&](double number) { check_bounds(field, number, origin); };
  std::visit(
      [&](auto* pointer) {
        using T = std::remove_pointer_t<decltype(pointer)>;
        if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) {
          bound(static_cast<double>(*pointer));
        } else if constexpr (std::is_same_v<T, std::optional<std::int64_t>> ||
                             std::is_same_v<T, std::optional<double>>) {
          if (*pointer) bound(static_cast<double>(**pointer));
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          for (const auto item : *pointer) bound(static_cast<double>(item));
        } else if constexpr (std::is_same_v<T, NumberOrAuto>) {
          if (pointer->number) bound(*pointer->number);
        } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::optional<std::string>>) {
          const auto& choices = field.rules.choices;
          if (choices.empty()) return;
          std::string text;
          if constexpr (std::is_same_v<T, std::string>)
            text = *pointer;
          else if (*pointer)
            text = **pointer;
          else
            return;
          if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
          std::string list;
          for (const auto& choice : choices) list += (list.empty() ? "" : ", ") + choice;
          fail(ExitCode::config, origin, ": ", field.path, " = '", text, "' is not one of: ", list, ".",
               did_you_mean(text, choices));
        }
      },
      field.value);
  origins_[field.path] = origin;
}

void ConfigBinding::apply_json(const Json& json, const std::string& origin, const std::string& prefix) {
  if (!json.is_object()) {
    fail(ExitCode::config, origin, ": ", prefix.empty() ? "the document" : prefix.substr(0, prefix.size() - 1),
         " must be a JSON object, not ", json.dump().substr(0, 60));
  }
  for (const auto& [key, value] : json.items()) {
    const std::string path = prefix + key;
    if (const Field* field = find(path)) {
      set(*field, value, origin);
      continue;
    }
    const std::string nested = path + ".";
    const bool is_section =
        std::any_of(fields_.begin(), fields_.end(), [&](const Field& f) { return f.path.rfind(nested, 0) == 0; });
    if (!is_section) fail(ExitCode::config, origin, ": unknown key '", path, "'.", suggest(path));
    apply_json(value, origin, nested);
  }
}

// Whether an environment variable begins like a field's: SATFORMER_ and a section, even if one underscore follows.
bool ConfigBinding::names_section(const std::string& variable) const {
  if (variable.find("__") != std::string::npos) return true;
  return std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) {
    const auto dot = field.path.find('.');
    return dot != std::string::npos && variable.starts_with(environment_name(field.path.substr(0, dot)) + "_");
  });
}

void ConfigBinding::apply_environment(const std::vector<std::string>& environment) {
  std::map<std::string, const Field*> by_name;
  std::vector<std::string> names;
  for (const Field& field : fields_) {
    by_name[environment_name(field.path)] = &field;
    names.push_back(environment_name(field.path));
  }
  for (const std::string& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || entry.rfind("SATFORMER_", 0) != 0) continue;
    const std::string name = entry.substr(0, equals);
    if (!names_section(name)) continue;  // SATFORMER_CPU_ISA and the like are not config fields
    const auto it = by_name.find(name);
    if (it == by_name.end()) {
      fail(ExitCode::config, "environment: ", name, " names no configuration field.", did_you_mean(name, names));
    }
    set(*it->second, parse_value(std::string_view(entry).substr(equals + 1), *it->second),
        concat("environment ", name));
  }
}

void ConfigBinding::apply_override(std::string_view assignment) {
  if (assignment.rfind("--", 0) == 0) assignment.remove_prefix(2);
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos) {
    fail(ExitCode::usage, "'", assignment, "' is not an override: expected section.key=value");
  }
  std::string path(assignment.substr(0, equals));
  std::replace(path.begin(), path.end(), '-', '_');
  const Field* field = find(path);
  if (!field) {
    std::vector<const Field*> matches;
    for (const Field& candidate : fields_) {
      if (candidate.path.ends_with("." + path)) matches.push_back(&candidate);
    }
    // model.hidden_size for model.config_overrides.hidden_size.
    const std::string outer = path.substr(0, path.rfind('.') + 1), name = "." + path.substr(outer.size());
    const bool inner = matches.empty() && !outer.empty();
    for (const Field& candidate : fields_) {
      if (!inner) break;
      if (candidate.path.starts_with(outer) && candidate.path.ends_with(name)) matches.push_back(&candidate);
    }
    if (matches.size() == 1) field = matches[0];
    if (matches.size() > 1) {
      fail(ExitCode::config, "--", path, " is ambiguous: ", matches[0]->path, " or ", matches[1]->path);
    }
  }
  if (!field) {
    for (const Field& candidate : fields_) {
      if (!candidate.path.starts_with(path + ".")) continue;
      fail(ExitCode::config, "--", path, " is a section: set its fields, such as --", candidate.path);
    }
    fail(ExitCode::config, "--", path, ": unknown key.", suggest(path));
  }
  set(*field, parse_value(assignment.substr(equals + 1), *field), concat("--", path));
}

Json ConfigBinding::to_json() const {
  Json root = Json::object();
  for (const Field& field : fields_) {
    Json* node = &root;
    std::string_view rest = field.path;
    for (auto dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      node = &(*node)[std::string(rest.substr(0, dot))];
      rest.remove_prefix(dot + 1);
    }
    (*node)[std::string(rest)] = field_value(field);
  }
  return root;
}

std::string ConfigBinding::origin(const std::string& path) const {
  const auto it = origins_.find(path);
  return it == origins_.end() ? "default" : it->second;
}

std::vector<std::string> ConfigBinding::unused() const {
  std::vector<std::string> names;
  for (const Field& field : fields_) {
    if (field.rules.unused && origins_.count(field.path)) names.push_back(field.path);
  }
  return names;
}

std::string ConfigBinding::describe() const {
  std::string text;
  for (const Field& field : fields_) {
    if (field.rules.unused) continue;
    text += concat("  --", field.path, "=", field_value(field).dump(), "\n      ", field.help);
    if (!field.rules.choices.empty()) {
      text += " (";
      for (std::size_t i = 0; i < field.rules.choices.size(); ++i) {
        text += (i ? ", " : "") + field.rules.choices[i];
      }
      text += ")";
    }
    text += "\n";
  }
  return text;
}

std::string ConfigBinding::show() const {
  std::string text;
  for (const Field& field : fields_) {
    text += concat(field.path, " = ", field_value(field).dump(), "  [", origin(field.path), "]",
                   field.rules.unused ? " (no effect here)" : "", "\n");
  }
  return text;
}

}  // namespace satformer
