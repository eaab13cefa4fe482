#include "io/tokenizer.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "io/file.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t num_special = 3;
constexpr std::string_view byte_definition =
    "{\n  \"kind\": \"byte\",\n  \"special_tokens\": {\"<unk>\": 0, \"<s>\": 1, \"</s>\": 2},\n"
    "  \"byte_offset\": 3,\n  \"vocab_size\": 259\n}\n";

class ByteTokenizer : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = num_special + static_cast<unsigned char>(text[i]);
    return ids;
  }
  std::string token_bytes(std::int32_t id, bool) const override {
    check_id(id);
    return id < num_special ? std::string() : std::string(1, static_cast<char>(id - num_special));
  }
  bool is_special(std::int32_t id) const override { return id < num_special; }
  std::int64_t vocab_size() const override { return num_special + 256; }
  std::int32_t eos_id() const override { return 2; }
  std::int32_t bos_id() const override { return 1; }
  std::string piece(std::int32_t id) const override {
    check_id(id);
    static constexpr std::array names{"<unk>", "<s>", "</s>"};
    if (id < num_special) return names[static_cast<std::size_t>(id)];
    const int byte = id - num_special;
    if (byte > 0x20 && byte < 0x7f) return std::string(1, static_cast<char>(byte));
    char text[16];
    std::snprintf(text, sizeof text, "<0x%02X>", static_cast<unsigned>(byte));
    return text;
  }
  std::string name() const override { return "byte"; }
  std::string sha256() const override {
    Sha256 hash;
    hash.update(byte_definition);
    return hash.hex();
  }
  void save(const std::string& directory) const override {
    write_file_atomic((fs::path(directory) / "tokenizer.json").string(), byte_definition);
    std::error_code ignored;
    fs::remove(fs::path(directory) / "tokenizer.model", ignored);
  }
};

// An id of the config.json beside a tokenizer, or -1.
std::int64_t config_id(const fs::path& folder, const char* key) {
  const std::string path = (folder / "config.json").string();
  if (!fs::exists(path)) return -1;
  const nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!json.is_object() || !json.contains(key)) return -1;
  const nlohmann::json& value = json[key].is_array() && !json[key].empty() ? json[key][0] : json[key];
  return value.is_number_integer() && value >= 0 ? value.get<std::int64_t>() : -1;
}

std::unique_ptr<Tokenizer> load_definition(const std::string& path) {
  std::string text = read_file(path);
  if (text.size() < 4096) {  // ours; those of Hugging Face are longer, and slow to read with all checks
    const Json json = parse_json(text, path, ExitCode::data);
    if (json.is_object() && json.contains("kind")) {
      if (json["kind"] == "byte") return make_byte_tokenizer();
      fail(ExitCode::data, path,
           ": \"kind\" must be \"byte\"; other tokenizers are SentencePiece models or those of "
           "Hugging Face");
    }
  }
  HuggingFaceFiles files{std::move(text), {}, path};
  const fs::path folder = fs::path(path).parent_path();
  const std::string settings = (folder / "tokenizer_config.json").string();
  if (fs::exists(settings)) files.settings = read_file(settings);
  files.bos_id = config_id(folder, "bos_token_id");
  files.eos_id = config_id(folder, "eos_token_id");
  return make_huggingface_tokenizer(std::move(files));
}

}  // namespace

void Tokenizer::check_id(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    fail(ExitCode::data, "token id ", id, " is outside the vocabulary of ", vocab_size());
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  bool at_start = true;
  for (const std::int32_t id : ids) {
    text += token_bytes(id, at_start);
    at_start = at_start && is_special(id);
  }
  return text;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& spec) {
  if (spec == "byte") return make_byte_tokenizer();
  std::error_code error;
  if (fs::is_directory(spec, error)) {
    const std::string model = (fs::path(spec) / "tokenizer.model").string();
    const std::string definition = (fs::path(spec) / "tokenizer.json").string();
    if (fs::exists(model)) return make_sentencepiece_tokenizer(read_file(model), model);
    if (fs::exists(definition)) return load_definition(definition);
    fail(ExitCode::data, spec, ": this folder holds neither tokenizer.model nor tokenizer.json");
  }
  if (!fs::exists(spec, error)) {
    fail(ExitCode::data, "tokenizer '", spec,
         "' is neither 'byte' nor a SentencePiece model, a tokenizer.json or a folder with one");
  }
  if (spec.ends_with(".json")) return load_definition(spec);
  return make_sentencepiece_tokenizer(read_file(spec), spec);
}

int utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return 0;
    // The second byte excludes overlong forms, surrogates and values above U+10FFFF.
    const unsigned char low = i > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = i > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(i) < low || byte(i) > high) return -1;
  }
  return static_cast<int>(length);
}

std::string StreamDecoder::push(std::int32_t id) {
  pending_ += tokenizer_.token_bytes(id, at_start_);
  at_start_ = at_start_ && tokenizer_.is_special(id);
  std::string text;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const int length = utf8_length(std::string_view(pending_).substr(at));
    if (length == 0) break;
    if (length < 0) {
      text += "\xEF\xBF\xBD";
      at += 1;
    } else {
      text.append(pending_, at, static_cast<std::size_t>(length));
      at += static_cast<std::size_t>(length);
    }
  }
  pending_.erase(0, at);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  if (!pending_.empty()) text = "\xEF\xBF\xBD";
  pending_.clear();
  return text;
}

}  // namespace satformer
