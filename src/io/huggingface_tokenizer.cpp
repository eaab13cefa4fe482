// A tokenizer.json of Hugging Face with byte-pair encoding: over the byte alphabet (GPT-2, Llama-3, Qwen), or over
// characters with bytes for those that the vocabulary lacks (Llama-2, Mistral). Words are encoded once and
// remembered; where nothing cuts a text into words, it is cut between characters that stand side by side in no piece.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/failure.h"
#include "base/unicode.h"
#include "io/added_tokens.h"
#include "io/bpe.h"
#include "io/byte_alphabet.h"
#include "io/file.h"
#include "io/normalizers.h"
#include "io/text_parts.h"
#include "io/tokenizer.h"
#include "io/word_patterns.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using RawJson = nlohmann::json;  // its maps find a key quickly among hundreds of thousands

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (static_cast<signed char>(text[0]) >= 0) {
      text.remove_prefix(1);
      continue;
    }
    const int length = utf8_length(text);
    if (length <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(length));
  }
  return true;
}

class HuggingFaceTokenizer : public Tokenizer {
 public:
  explicit HuggingFaceTokenizer(HuggingFaceFiles files) : files_(std::move(files)), origin_(files_.origin) {
    const RawJson json = RawJson::parse(files_.tokenizer, nullptr, false);
    if (json.is_discarded() || !json.is_object()) fail(ExitCode::data, origin_, ": not a JSON object");
    if (!json.contains("model") || !json["model"].is_object()) {
      fail(ExitCode::data, origin_, ": no object \"model\"; is this a tokenizer.json of Hugging Face?");
    }
    normalizers_ = make_normalizers(json.value("normalizer", RawJson()), origin_);
    pre_tokenizers_ = make_pre_tokenizers(json.value("pre_tokenizer", RawJson()), origin_);
    read_model(json["model"]);
    read_added(json.value("added_tokens", RawJson::array()));
    check_post_processor(json.value("post_processor", RawJson()));
    read_decoder(json.value("decoder", RawJson()));
    find_ends();
    find_borders();
  }

  std::vector<std::int32_t> encode(std::string_view text) const override { return encode_text(text, true); }
  std::vector<std::int32_t> encode_continued(std::string_view text) const override {
    return encode_text(text, false);
  }

  std::string token_bytes(std::int32_t id, bool at_start) const override {
    check_id(id);
    const auto i = static_cast<std::size_t>(id);
    if (special_[i]) return {};
    const std::string& bytes = bytes_[i];
    return at_start && strips_start_ && bytes.starts_with(' ') ? bytes.substr(1) : bytes;
  }
  bool is_special(std::int32_t id) const override {
    return id >= 0 && id < vocab_size() && special_[static_cast<std::size_t>(id)];
  }
  std::int64_t vocab_size() const override { return std::ssize(pieces_); }
  std::int32_t eos_id() const override { return eos_; }
  std::int32_t bos_id() const override { return bos_; }
  std::string piece(std::int32_t id) const override {
    check_id(id);
    return pieces_[static_cast<std::size_t>(id)];
  }
  std::string name() const override { return "huggingface"; }
  std::string sha256() const override {
    Sha256 hash;
    hash.update(files_.tokenizer);
    return hash.hex();
  }
  void save(const std::string& directory) const override {
    write_file_atomic((fs::path(directory) / "tokenizer.json").string(), files_.tokenizer);
    std::string settings = files_.settings;
    if (settings.empty()) {
      RawJson json = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"eos_token", piece(eos_)}};
      if (bos_ >= 0) json["bos_token"] = piece(bos_);
      settings = json.dump(2) + "\n";
    }
    write_file_atomic((fs::path(directory) / "tokenizer_config.json").string(), settings);
    std::error_code ignored;
    fs::remove(fs::path(directory) / "tokenizer.model", ignored);
  }

 private:
  template <class... What>
  [[noreturn]] void refuse(const What&... what) const {
    fail(ExitCode::data, origin_, ": ", what...);
  }

  // ------------------------------------------------------------------------------------------------ reading

  std::int32_t id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  void set_piece(std::int64_t id, const std::string& token) {
    if (id < 0 || id > 1 << 26) refuse("token '", token, "' has the id ", id);
    if (id >= std::ssize(pieces_)) pieces_.resize(static_cast<std::size_t>(id) + 1);
    pieces_[static_cast<std::size_t>(id)] = token;
    ids_[token] = static_cast<std::int32_t>(id);
  }

  void read_model(const RawJson& model) {
    const std::string type = model.value("type", model.contains("merges") ? "BPE" : "none");
    if (type != "BPE") refuse("model '", type, "' is not supported (known: BPE)");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (model.contains(key) && !model[key].is_null() && model[key] != "") {
        refuse("model.", key, " ", model[key].dump(), " is not supported");
      }
    }
    if (model.contains("dropout") && !model["dropout"].is_null() && model["dropout"] != 0.0) {
      refuse("model.dropout ", model["dropout"].dump(), " makes ids random, which is not supported");
    }
    const auto flag = [&](const char* key) { return model.contains(key) && model[key] == true; };
    byte_fallback_ = flag("byte_fallback");
    fuse_unk_ = flag("fuse_unk");
    ignore_merges_ = flag("ignore_merges");
    if (!model.contains("vocab") || !model["vocab"].is_object()) refuse("model.vocab must be an object");
    for (const auto& [token, id] : model["vocab"].items()) {
      if (!id.is_number_integer()) refuse("model.vocab: the id of '", token, "' is not a whole number");
      set_piece(id.get<std::int64_t>(), token);
    }
    if (model.contains("unk_token") && model["unk_token"].is_string()) {
      unk_ = id_of(model["unk_token"].get<std::string>());
      if (unk_ < 0) refuse("model.unk_token ", model["unk_token"].dump(), " is not in the vocabulary");
    }
    read_merges(model.value("merges", RawJson::array()));
    for (int byte = 0; byte < 256; ++byte) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
      const auto i = static_cast<std::size_t>(byte);
      byte_ids_[i] = id_of(pre_tokenizers_.byte_level ? byte_letter(static_cast<unsigned char>(byte)) : name);
    }
  }

  void read_merges(const RawJson& merges) {
    if (!merges.is_array()) refuse("model.merges must be a list");
    pairs_.emplace(merges.size());
    std::int32_t rank = 0;
    for (const RawJson& merge : merges) {
      std::string left, right;
      if (merge.is_string()) {
        const std::string text = merge.get<std::string>();
        const std::size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
          refuse("model.merges[", rank, "] '", text, "' is not two tokens");
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else {
        refuse("model.merges[", rank, "] is not two tokens");
      }
      const std::int32_t a = id_of(left), b = id_of(right), joined = id_of(left + right);
      if (a < 0 || b < 0 || joined < 0) {
        refuse("model.merges[", rank, "]: '",
               a < 0   ? left
               : b < 0 ? right
                       : left + right,
               "' is not in the vocabulary");
      }
      pairs_->insert(a, b, {rank++, joined});
    }
  }

  void read_added(const RawJson& added) {
    std::vector<AddedToken> before, after;
    for (const RawJson& item : added) {
      if (!item.is_object() || !item.contains("content") || !item["content"].is_string() || !item.contains("id") ||
          !item["id"].is_number_integer()) {
        refuse("added_tokens must be objects with \"id\" and \"content\"");
      }
      const auto flag = [&](const char* key) { return item.contains(key) && item[key] == true; };
      AddedToken token{item["id"].get<std::int32_t>(),
                       item["content"].get<std::string>(),
                       flag("special"),
                       flag("single_word"),
                       flag("lstrip"),
                       flag("rstrip"),
                       flag("normalized")};
      set_piece(token.id, token.content);
      added_.insert(token.id);
      if (token.special) special_ids_.insert(token.id);
      if (token.normalized) {
        token.content = normalize(token.content, true);
        after.push_back(token);
      } else {
        before.push_back(token);
      }
    }
    before_ = AddedTokens(std::move(before));
    after_ = AddedTokens(std::move(after));
    special_.assign(pieces_.size(), false);
    for (const std::int32_t id : special_ids_) special_[static_cast<std::size_t>(id)] = true;
  }

  // They add special tokens around a text, which is left to the caller here, and move offsets.
  void check_post_processor(const RawJson& json) const {
    if (json.is_null()) return;
    const std::string type = json.value("type", "");
    if (type == "Sequence") {
      for (const RawJson& item : json.value("processors", RawJson::array())) check_post_processor(item);
    } else if (type != "TemplateProcessing" && type != "ByteLevel" && type != "RobertaProcessing" &&
               type != "BertProcessing") {
      refuse("post-processor '", type, "' is not supported");
    }
  }

  void read_decoder(const RawJson& json) {
    std::vector<std::pair<std::string, std::string>> replacements;
    bool byte_level = json.is_null() && pre_tokenizers_.byte_level, bytes = false;
    const auto read = [&](const auto& self, const RawJson& item) -> void {
      if (item.is_null()) return;
      const std::string type = item.value("type", "");
      if (type == "Sequence") {
        for (const RawJson& part : item.value("decoders", RawJson::array())) self(self, part);
      } else if (type == "ByteLevel") {
        byte_level = true;
      } else if (type == "ByteFallback") {
        bytes = true;
      } else if (type == "Fuse") {
      } else if (type == "Replace" && item.contains("pattern") && item["pattern"].contains("String")) {
        replacements.emplace_back(item["pattern"]["String"].template get<std::string>(), item.value("content", ""));
      } else if (type == "Strip" && item.value("content", "") == " " && item.value("stop", 0) == 0) {
        strips_start_ = item.value("start", 0) > 0;
      } else if (type == "Metaspace") {
        replacements.emplace_back(item.value("replacement", std::string(space_mark)), " ");
        const std::string scheme =
            item.value("prepend_scheme", item.value("add_prefix_space", true) ? "always" : "never");
        strips_start_ = scheme != "never";
      } else {
        refuse("decoder '", type,
               "' is not supported (known: Sequence, ByteLevel, ByteFallback, Fuse, Replace of a "
               "text, Strip at the start, Metaspace)");
      }
    };
    read(read, json);
    bytes_.resize(pieces_.size());
    for (std::size_t id = 0; id < pieces_.size(); ++id) {
      std::string text = pieces_[id];
      if (byte_level && added_.count(static_cast<std::int32_t>(id)) == 0) {
        text = from_byte_letters(text);
      } else if (bytes && text.size() == 6 && text.starts_with("<0x") && text.back() == '>') {
        text = std::string(1, static_cast<char>(std::stoi(text.substr(3, 2), nullptr, 16)));
      } else {
        for (const auto& [from, to] : replacements) {
          for (std::size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos;
               at += to.size()) {
            text.replace(at, from.size(), to);
          }
        }
      }
      bytes_[id] = std::move(text);
    }
  }

  static std::string from_byte_letters(const std::string& text) {
    std::string bytes;
    for (std::string_view rest = text; !rest.empty();) {
      const CodePoint c = first_code_point(rest);
      const int byte = byte_of_letter(c.value);
      if (byte < 0) return text;
      bytes += static_cast<char>(byte);
      rest.remove_prefix(c.size);
    }
    return bytes;
  }

  void find_ends() {
    const RawJson settings = files_.settings.empty() ? RawJson() : RawJson::parse(files_.settings, nullptr, false);
    const auto named = [&](const char* key) {
      if (!settings.is_object() || !settings.contains(key)) return std::int32_t{-1};
      const RawJson& token =
          settings[key].is_object() && settings[key].contains("content") ? settings[key]["content"] : settings[key];
      return token.is_string() ? id_of(token.get<std::string>()) : -1;
    };
    const auto first_of = [&](std::initializer_list<const char*> usual) {
      for (const char* token : usual) {
        const std::int32_t id = id_of(token);
        if (id >= 0 && special_[static_cast<std::size_t>(id)]) return id;
      }
      return std::int32_t{-1};
    };
    const auto in_vocabulary = [&](std::int64_t id) {
      return id >= 0 && id < vocab_size() ? static_cast<std::int32_t>(id) : -1;
    };
    eos_ = named("eos_token");
    if (eos_ < 0) eos_ = in_vocabulary(files_.eos_id);
    if (eos_ < 0) eos_ = first_of({"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<|im_end|>"});
    if (eos_ < 0) {
      refuse("no end-of-sequence token: name one as \"eos_token\" in tokenizer_config.json beside it");
    }
    bos_ = named("bos_token");
    if (bos_ < 0 && !settings.is_object()) {
      bos_ = in_vocabulary(files_.bos_id);
      if (bos_ < 0) bos_ = first_of({"<s>", "<|begin_of_text|>", "<bos>"});
    }
  }

  // Without pre-tokenizer a text is one word.
  void find_borders() {
    by_parts_ = pre_tokenizers_.steps.empty() && !ignore_merges_;
    if (!by_parts_) return;
    for (const auto& [token, id] : ids_) neighbours_.add(token);
  }

  // ----------------------------------------------------------------------------------------------- encoding

  std::string normalize(std::string text, bool at_start) const {
    for (const auto& normalizer : normalizers_) {
      if (at_start || !normalizer->only_at_start()) text = normalizer->apply(std::move(text));
    }
    return text;
  }

  std::vector<std::int32_t> encode_text(std::string_view text, bool at_start) const {
    std::vector<std::int32_t> ids;
    std::string repaired;
    if (!is_utf8(text)) text = repaired = replace_invalid_utf8(text);
    ids.reserve(text.size() / 3 + 8);
    std::unique_ptr<PartCache> cache = caches_.take();
    // Pieces after an added token get their prefix too, unless it is for the document's start alone.
    bool continues = !at_start;
    for (const AddedTokens::Part& part : before_.split(text)) {
      const bool first = part.text.data() == text.data();
      if (part.id >= 0) {
        ids.push_back(part.id);
        continues = false;
        continue;
      }
      std::string normalized;
      std::string_view piece = part.text;
      if (!normalizers_.empty()) piece = normalized = normalize(std::string(part.text), !continues);
      for (const AddedTokens::Part& inner : after_.split(piece)) {
        if (inner.id >= 0) {
          ids.push_back(inner.id);
        } else {
          encode_piece(inner.text, first && at_start && inner.text.data() == piece.data(), continues, *cache, ids);
        }
        continues = false;
      }
    }
    caches_.give_back(std::move(cache));
    return ids;
  }

  void encode_piece(std::string_view text, bool document_start, bool continues, PartCache& cache,
                    std::vector<std::int32_t>& ids) const {
    const auto encode = [this](std::string_view word, std::vector<std::int32_t>& out) { encode_word(word, out); };
    if (pre_tokenizers_.only_pattern && pre_tokenizers_.byte_level) {
      std::string prefixed;
      if (pre_tokenizers_.prefix_space && !continues && !text.starts_with(' '))
        text = prefixed = " " + std::string(text);
      const WordPattern& pattern = *pre_tokenizers_.only_pattern;
      while (!text.empty()) {
        const std::size_t size = pattern.first_word(text);
        cache.append(text.substr(0, size), ids, encode);
        text.remove_prefix(size);
      }
      return;
    }
    if (!by_parts_) {
      PreTokenizer::Words words = {std::string(text)};
      for (const auto& step : pre_tokenizers_.steps) step->apply(words, document_start);
      for (const std::string& word : words) {
        if (!word.empty()) cache.append(word, ids, encode);
      }
      return;
    }
    const std::size_t begin = ids.size();
    while (!text.empty()) {
      const std::size_t size = neighbours_.part_length(text), before = ids.size();
      cache.append(text.substr(0, size), ids, encode);
      if (fuse_unk_ && unk_ >= 0 && before > begin && ids.size() > before && ids[before] == unk_ &&
          ids[before - 1] == unk_) {
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(before));
      }
      text.remove_prefix(size);
    }
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) const {
    if (ignore_merges_) {
      std::string token;
      if (pre_tokenizers_.byte_level) {
        for (const char c : word) token += byte_letter(static_cast<unsigned char>(c));
      } else {
        token = word;
      }
      if (const std::int32_t id = id_of(token); id >= 0) {
        ids.push_back(id);
        return;
      }
    }
    std::vector<std::int32_t> symbols;
    symbols.reserve(word.size());
    const auto unknown = [&] {
      if (unk_ >= 0 && !(fuse_unk_ && !symbols.empty() && symbols.back() == unk_)) symbols.push_back(unk_);
    };
    if (pre_tokenizers_.byte_level) {
      for (const char c : word) {
        const std::int32_t id = byte_ids_[static_cast<unsigned char>(c)];
        id >= 0 ? symbols.push_back(id) : unknown();
      }
    } else {
      while (!word.empty()) {
        const std::string_view character = word.substr(0, first_code_point(word).size);
        word.remove_prefix(character.size());
        if (const std::int32_t id = id_of(std::string(character)); id >= 0) {
          symbols.push_back(id);
          continue;
        }
        const bool bytes = byte_fallback_ && std::all_of(character.begin(), character.end(), [&](char c) {
                             return byte_ids_[static_cast<unsigned char>(c)] >= 0;
                           });
        if (!bytes) {
          unknown();
          continue;
        }
        for (const char c : character) symbols.push_back(byte_ids_[static_cast<unsigned char>(c)]);
      }
    }
    join_pairs(symbols, *pairs_);
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  HuggingFaceFiles files_;
  std::string origin_;
  std::vector<std::unique_ptr<Normalizer>> normalizers_;
  PreTokenizers pre_tokenizers_;
  AddedTokens before_, after_;  // looked for before and after normalisation
  std::vector<std::string> pieces_, bytes_;
  std::vector<bool> special_;
  std::set<std::int32_t> added_, special_ids_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::optional<PairTable> pairs_;
  std::array<std::int32_t, 256> byte_ids_{};
  bool byte_fallback_ = false, fuse_unk_ = false, ignore_merges_ = false, strips_start_ = false;
  std::int32_t unk_ = -1, bos_ = -1, eos_ = -1;
  bool by_parts_ = false;
  Neighbours neighbours_;
  PartCaches caches_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_huggingface_tokenizer(HuggingFaceFiles files) {
  const std::string origin = files.origin;
  try {
    return std::make_unique<HuggingFaceTokenizer>(std::move(files));
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::data, origin, ": ", json_problem(error));
  }
}

}  // namespace satformer
