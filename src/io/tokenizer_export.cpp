#include "io/tokenizer_export.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/unicode.h"
#include "io/byte_alphabet.h"
#include "io/file.h"
#include "io/sentencepiece_pieces.h"

namespace satformer {
namespace {

const char* const space_mark = "\xE2\x96\x81";

Json added_token(std::int64_t id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

Json with_model(Json added, Json normalizer, Json pre_tokenizer, Json decoder, Json model) {
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", std::move(normalizer)},
          {"pre_tokenizer", std::move(pre_tokenizer)},
          {"post_processor", nullptr},
          {"decoder", std::move(decoder)},
          {"model", std::move(model)}};
}

Json byte_json(const Tokenizer& tokenizer) {
  Json vocab = Json::object(), added = Json::array();
  for (std::int32_t id = 0; id < 3; ++id) {
    vocab[tokenizer.piece(id)] = id;
    added.push_back(added_token(id, tokenizer.piece(id)));
  }
  for (std::int32_t id = 3; id < tokenizer.vocab_size(); ++id)
    vocab[byte_letter(static_cast<unsigned char>(id - 3))] = id;
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  return with_model(added, nullptr, byte_level, byte_level,
                    {{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", false},
                     {"byte_fallback", false},
                     {"ignore_merges", false},
                     {"vocab", vocab},
                     {"merges", Json::array()}});
}

// Why a model cannot be a BPE with a metaspace; empty if it can.
std::string obstacle(const SentencePieces& m) {
  if (m.model_type != SentencePieces::bpe) return "the SentencePiece model is not of the kind BPE";
  if (!m.charsmap.empty()) return "the SentencePiece model normalises characters (precompiled_charsmap)";
  if (m.collapse) return "the SentencePiece model strips and joins white space (remove_extra_whitespaces)";
  if (!m.escape) return "the SentencePiece model keeps plain spaces (escape_whitespaces is false)";
  if (m.suffix) return "the SentencePiece model takes white space as a suffix";
  for (const auto& piece : m.pieces) {
    if (piece.kind == SentencePieces::user_defined)
      return concat("the SentencePiece model has a user-defined piece '", piece.text, "'");
  }
  return {};
}

// Every way to put a piece together from two others. The better the score of the result, the earlier.
Json merges_of(const SentencePieces& m) {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < m.pieces.size(); ++i) {
    if (m.pieces[i].kind == SentencePieces::normal) index.emplace(m.pieces[i].text, i);
  }
  std::vector<std::tuple<float, std::size_t, std::size_t>> merges;  // minus score, left, right
  for (const auto& [text, i] : index) {
    for (std::size_t at = 1; at < text.size(); ++at) {
      const auto left = index.find(text.substr(0, at)), right = index.find(text.substr(at));
      if (left == index.end() || right == index.end()) continue;
      merges.emplace_back(-m.pieces[i].score, left->second, right->second);
    }
  }
  std::sort(merges.begin(), merges.end());
  Json list = Json::array();
  for (const auto& [score, left, right] : merges) list.push_back({m.pieces[left].text, m.pieces[right].text});
  return list;
}

Json sentencepiece_json(const SentencePieces& m) {
  Json vocab = Json::object(), added = Json::array(), unk = nullptr;
  for (std::size_t id = 0; id < m.pieces.size(); ++id) {
    const auto& piece = m.pieces[id];
    vocab[piece.text] = id;
    if (piece.kind == SentencePieces::unknown) unk = piece.text;
    if (piece.kind == SentencePieces::unknown || piece.kind == SentencePieces::control)
      added.push_back(added_token(static_cast<std::int64_t>(id), piece.text));
  }
  const Json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space_mark}};
  Json normalizers = Json::array();
  if (m.prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", space_mark}});
  normalizers.push_back(replace);
  Json decoders = {{{"type", "Replace"}, {"pattern", {{"String", space_mark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}};
  if (m.prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return with_model(added, {{"type", "Sequence"}, {"normalizers", normalizers}}, nullptr,
                    {{"type", "Sequence"}, {"decoders", decoders}},
                    {{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", unk},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", true},
                     {"byte_fallback", m.byte_fallback != 0},
                     {"ignore_merges", false},
                     {"vocab", vocab},
                     {"merges", merges_of(m)}});
}

}  // namespace

std::string saved_tokenizer(const Tokenizer& tokenizer) {
  std::string folder = (std::filesystem::temp_directory_path() / "satformer-tokenizer-XXXXXX").string();
  if (!mkdtemp(folder.data())) fail_errno("create", folder, errno);
  std::string contents;
  try {
    tokenizer.save(folder);
    for (const char* name : {"/tokenizer.model", "/tokenizer.json"}) {
      if (contents.empty() && std::filesystem::exists(folder + name)) contents = read_file(folder + name);
    }
  } catch (...) {
    std::filesystem::remove_all(folder);
    throw;
  }
  std::filesystem::remove_all(folder);
  return contents;
}

TokenizerJson tokenizer_json(const Tokenizer& tokenizer) {
  if (tokenizer.name() == "byte") return {byte_json(tokenizer).dump(1) + "\n", {}};
  const std::string file = saved_tokenizer(tokenizer);
  if (tokenizer.name() != "sentencepiece") return {file, {}};
  const SentencePieces model = read_sentencepieces(file);
  if (std::string why = obstacle(model); !why.empty()) return {{}, std::move(why)};
  return {sentencepiece_json(model).dump(1) + "\n", {}};
}

std::string tokenizer_config_json(const Tokenizer& tokenizer, std::int64_t model_max_length) {
  Json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
               {"clean_up_tokenization_spaces", false},
               {"model_max_length", model_max_length},
               {"add_bos_token", false},
               {"padding_side", "left"}};
  if (tokenizer.bos_id() >= 0) json["bos_token"] = tokenizer.piece(tokenizer.bos_id());
  if (tokenizer.eos_id() >= 0) json["eos_token"] = json["pad_token"] = tokenizer.piece(tokenizer.eos_id());
  return json.dump(2) + "\n";
}

}  // namespace satformer
