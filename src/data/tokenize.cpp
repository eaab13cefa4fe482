#include "data/tokenize.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "io/file.h"

namespace satformer {
namespace {

// Finds one top-level string without building the rest of the document.
class TextFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextFinder(const std::string& key) : key_(key) {}
  std::string problem;  // empty: `text` is it
  std::string text;
  bool found = false;
  std::size_t stopped_at = 0;  // where it is not JSON
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
    stopped_at = position;
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

// Drops a byte order mark and turns CRLF into LF.
std::string normalised(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  if (text.find('\r') == std::string::npos) return text;
  std::string unix_text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    unix_text += text[i];
  }
  return unix_text;
}

// Where a text stops being UTF-8; its size where it never does.
std::size_t first_invalid(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const int length = utf8_length(text.substr(at));
    if (length <= 0) break;
    at += static_cast<std::size_t>(length);
  }
  return at;
}

std::string not_utf8(std::string_view text, std::size_t at) {
  char byte[8];
  std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(text[at]));
  return concat("not UTF-8: ", byte, " at byte ", at + 1);
}

void add_piece(std::string_view piece, bool continued, bool ends_document, const TokenizeRules& rules,
               TokenBatch& result) {
  const auto ids = continued ? rules.tokenizer->encode_continued(piece) : rules.tokenizer->encode(piece);
  result.ids.insert(result.ids.end(), ids.begin(), ids.end());
  std::string sha256;
  if (rules.hash) {
    Sha256 hash;
    hash.update(piece);
    sha256 = hash.hex();
  }
  result.parts.push_back({ids.size(), piece.size(), ends_document, std::move(sha256)});
}

void add_document(std::string_view text, const TokenizeRules& rules, TokenBatch& result) {
  for (bool continued = false; !text.empty(); continued = true) {
    const std::string_view piece = text.substr(0, piece_length(text));
    text.remove_prefix(piece.size());
    add_piece(piece, continued, text.empty(), rules, result);
  }
}

}  // namespace

std::string json_line_text(std::string_view line, const std::string& key, const std::string& place) {
  TextFinder finder(key);
  // The parser takes a zero byte for the end, and what follows would be lost.
  if (const auto zero = line.find('\0'); zero != std::string_view::npos) {
    finder.problem = concat("not valid JSON at byte ", zero + 1);
    finder.stopped_at = zero + 1;
  } else {
    nlohmann::json::sax_parse(line.begin(), line.end(), &finder);
  }
  if (finder.problem.empty() && !finder.found) {
    std::string keys;
    for (const std::string& name : finder.keys) keys += (keys.empty() ? "" : ", ") + name;
    finder.problem = concat("the key '", key, "' is missing; there is ", keys.empty() ? "none" : keys, ".",
                            did_you_mean(key, finder.keys));
  }
  if (finder.stopped_at > 0) {
    const std::size_t at = first_invalid(line);
    if (at < std::min(finder.stopped_at, line.size())) finder.problem = not_utf8(line, at) + " of the line";
  }
  if (!finder.problem.empty()) fail(ExitCode::data, place, ": ", finder.problem);
  return normalised(std::move(finder.text));
}

std::string item_text(const TextBatch& batch, const TextItem& item, const std::string& path, const std::string& key) {
  const bool row = batch.format == TextFormat::parquet;
  const std::string place = concat(path, row ? ": row " : ":", item.line);
  if (item.too_long) {
    fail(ExitCode::data, place, ": the ", row ? "value" : "line", " is longer than ", max_line_bytes, " bytes");
  }
  if (!row) return json_line_text(batch.view(item), key, place);
  if (item.null) fail(ExitCode::data, place, ": '", key, "' is null, not a string");
  const std::string_view text = batch.view(item);
  if (const std::size_t at = first_invalid(text); at < text.size()) {
    fail(ExitCode::data, place, ": '", key, "' is ", not_utf8(text, at));
  }
  return normalised(std::string(text));
}

TokenBatch tokenize(const TextBatch& batch, const std::string& path, const TokenizeRules& rules) {
  TokenBatch result;
  result.disk_position = batch.disk_position;
  result.sampled_out = batch.sampled_out;
  result.replaced_bytes = batch.replaced_bytes;
  for (const TextItem& item : batch.items) {
    if (item.line == 0) {
      const std::string_view raw = batch.view(item);
      if (item.ends_document && !item.continued && is_blank(raw)) {
        ++result.empty_documents;
      } else {
        add_piece(raw, item.continued, item.ends_document, rules, result);
      }
      continue;
    }
    std::string text;
    try {
      text = item_text(batch, item, path, rules.text_key);
    } catch (const Error&) {
      if (!rules.skip_bad) {
        result.error = std::current_exception();
        return result;
      }
      ++result.bad_lines;
      continue;
    }
    if (is_blank(text)) {
      ++result.empty_documents;
    } else {
      add_document(text, rules, result);
    }
  }
  return result;
}

}  // namespace satformer
