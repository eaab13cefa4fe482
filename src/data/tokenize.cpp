#include "data/tokenize.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace satformer {
namespace {

// Finds one top-level string without building the rest of the document.
class TextFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextFinder(const std::string& key) : key_(key) {}
  std::string problem;  // empty: `text` is it
  std::string text;
  bool found = false;
  std::vector<std::string> keys;

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(std::int64_t) override { return other("a number"); }
  bool number_unsigned(std::uint64_t) override { return other("a number"); }
  bool number_float(double, const std::string&) override { return other("a number"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool string(std::string& value) override {
    if (!wanted_) return other("a string");
    if (found) return refuse("the key '" + key_ + "' is there twice");
    wanted_ = false;
    found = true;
    text = std::move(value);
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0 && !other("an object")) return false;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!other("an array")) return false;
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    wanted_ = name == key_;
    if (!wanted_ && keys.size() < 20) keys.push_back(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(concat("not valid JSON at byte ", position));
  }

 private:
  bool refuse(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool other(const char* what) {
    if (depth_ == 0) return refuse(concat("a JSON object was expected, not ", what));
    if (wanted_) return refuse(concat("'", key_, "' is ", what, ", not a string"));
    return true;
  }

  std::string key_;
  int depth_ = 0;
  bool wanted_ = false;
};

void encode_document(std::string_view text, const Tokenizer& tokenizer, std::vector<std::int32_t>& ids) {
  for (bool continued = false; !text.empty(); continued = true) {
    const std::string_view piece = text.substr(0, piece_length(text));
    const auto part = continued ? tokenizer.encode_continued(piece) : tokenizer.encode(piece);
    ids.insert(ids.end(), part.begin(), part.end());
    text.remove_prefix(piece.size());
  }
}

}  // namespace

std::string json_line_text(std::string_view line, const std::string& key, const std::string& place) {
  TextFinder finder(key);
  nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  if (finder.problem.empty() && !finder.found) {
    std::string keys;
    for (const std::string& name : finder.keys) keys += (keys.empty() ? "" : ", ") + name;
    finder.problem = concat("the key '", key, "' is missing; there is ", keys.empty() ? "none" : keys, ".",
                            did_you_mean(key, finder.keys));
  }
  if (!finder.problem.empty()) fail(ExitCode::data, place, ": ", finder.problem);
  std::string text = std::move(finder.text);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (text.find('\r') == std::string::npos) return text;
  std::string unix_text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    unix_text += text[i];
  }
  return unix_text;
}

TokenBatch tokenize(const TextBatch& batch, const std::string& path, const TokenizeRules& rules) {
  TokenBatch result;
  result.disk_position = batch.disk_position;
  for (const TextItem& item : batch.items) {
    const std::string_view raw = batch.view(item);
    const std::size_t before = result.ids.size();
    if (item.line == 0) {
      if (item.ends_document && !item.continued && is_blank(raw)) {
        ++result.empty_documents;
        continue;
      }
      const auto ids = item.continued ? rules.tokenizer->encode_continued(raw) : rules.tokenizer->encode(raw);
      result.ids.insert(result.ids.end(), ids.begin(), ids.end());
      result.parts.push_back({ids.size(), raw.size(), item.ends_document});
      continue;
    }
    std::string text;
    try {
      const std::string place = concat(path, ":", item.line);
      if (item.too_long) fail(ExitCode::data, place, ": the line is longer than ", max_line_bytes, " bytes");
      text = json_line_text(raw, rules.text_key, place);
    } catch (const Error&) {
      if (!rules.skip_bad) throw;
      ++result.bad_lines;
      continue;
    }
    if (is_blank(text)) {
      ++result.empty_documents;
      continue;
    }
    encode_document(text, *rules.tokenizer, result.ids);
    result.parts.push_back({result.ids.size() - before, text.size(), true});
  }
  return result;
}

}  // namespace satformer
