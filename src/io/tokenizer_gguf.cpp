#include "io/tokenizer_gguf.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "io/sentencepiece_pieces.h"
#include "io/tokenizer_export.h"
#include "io/word_patterns.h"

namespace satformer {
namespace {

using PlainJson = nlohmann::json;  // its maps find a key quickly

// The kinds of tokens are those of SentencePiece.
constexpr std::int32_t normal_token = SentencePieces::normal, special_token = SentencePieces::control,
                       added_text = SentencePieces::user_defined, unused_token = SentencePieces::unused;

struct TokenLists {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  std::vector<float> scores;
};

template <class... What>
[[noreturn]] void not_for_llama_cpp(const What&... what) {
  fail(ExitCode::data, "llama.cpp cannot tokenize as this tokenizer does: ", what...,
       "; --no-tokenizer writes the model without one");
}

// Ids up to `size` that no token has; each needs a text of its own.
void fill_up(TokenLists& lists, std::int64_t size) {
  std::set<std::string> seen(lists.tokens.begin(), lists.tokens.end());
  const auto spare = [&](std::size_t id) {
    std::string text = concat("[PAD", id, "]");
    while (!seen.insert(text).second) text += "_";
    return text;
  };
  for (std::size_t id = 0; id < lists.tokens.size(); ++id) {
    if (!lists.tokens[id].empty()) continue;
    lists.tokens[id] = spare(id);
    lists.types[id] = unused_token;
  }
  while (std::ssize(lists.tokens) < size) {
    lists.tokens.push_back(spare(lists.tokens.size()));
    lists.types.push_back(unused_token);
    if (!lists.scores.empty()) lists.scores.push_back(-1000);
  }
}

GgufTokenizer from_sentencepiece(const SentencePieces& m, std::int64_t vocab_size) {
  if (!m.escape) not_for_llama_cpp("the SentencePiece model keeps plain spaces (escape_whitespaces is false)");
  if (m.suffix) not_for_llama_cpp("the SentencePiece model takes white space as a suffix");
  const bool bpe = m.model_type == SentencePieces::bpe;
  if (!bpe && m.model_type != SentencePieces::unigram) {
    not_for_llama_cpp("the SentencePiece model is neither BPE nor unigram");
  }
  const bool bytes = m.byte_fallback != 0;
  const auto has_user_pieces = std::any_of(m.pieces.begin(), m.pieces.end(),
                                           [](const auto& p) { return p.kind == SentencePieces::user_defined; });
  if (bpe && !m.charsmap.empty()) not_for_llama_cpp("the SentencePiece BPE model normalises characters");
  if (bpe && m.collapse) not_for_llama_cpp("the SentencePiece BPE model strips and joins white space");
  if (bpe && !bytes) not_for_llama_cpp("the SentencePiece BPE model has no byte fallback");
  if (bpe && m.prefix && has_user_pieces) not_for_llama_cpp("the SentencePiece model has user-defined pieces");
  if (!bpe && bytes) not_for_llama_cpp("the SentencePiece unigram model has byte fallback");
  TokenLists lists;
  std::int64_t unknown_id = -1;
  for (const auto& piece : m.pieces) {
    if (piece.kind == SentencePieces::unknown) unknown_id = std::ssize(lists.tokens);
    lists.tokens.push_back(piece.text);
    lists.scores.push_back(piece.score);
    lists.types.push_back(static_cast<std::int32_t>(piece.kind));
  }
  fill_up(lists, vocab_size);
  GgufTokenizer result;
  GgufMetadata& meta = result.metadata;
  meta.emplace_back("tokenizer.ggml.model", std::string(bpe ? "llama" : "t5"));
  meta.emplace_back("tokenizer.ggml.pre", std::string("default"));
  meta.emplace_back("tokenizer.ggml.tokens", std::move(lists.tokens));
  meta.emplace_back("tokenizer.ggml.scores", std::move(lists.scores));
  meta.emplace_back("tokenizer.ggml.token_type", std::move(lists.types));
  meta.emplace_back("tokenizer.ggml.add_space_prefix", m.prefix);
  if (!bpe) {
    meta.emplace_back("tokenizer.ggml.remove_extra_whitespaces", m.collapse);
    if (!m.charsmap.empty()) {
      meta.emplace_back("tokenizer.ggml.precompiled_charsmap",
                        std::vector<std::uint8_t>(m.charsmap.begin(), m.charsmap.end()));
    }
    result.no_blanks = m.prefix && !m.collapse;
    if (result.no_blanks) result.notes.emplace_back("a text of spaces alone gets no prefix space in llama.cpp");
  }
  if (unknown_id >= 0) meta.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<std::uint32_t>(unknown_id));
  return result;
}

// The name that llama.cpp has for the way in which texts are cut into words.
std::string pre_tokenizer_name(const PlainJson& json, bool has_merges, bool ignore_merges) {
  const PlainJson& pre = json.contains("pre_tokenizer") ? json["pre_tokenizer"] : PlainJson();
  std::vector<PlainJson> steps;
  if (pre.is_object() && pre.value("type", "") == "Sequence") {
    for (const PlainJson& step : pre.value("pretokenizers", PlainJson::array())) steps.push_back(step);
  } else if (pre.is_object()) {
    steps.push_back(pre);
  }
  const auto kind = [&](std::size_t i) { return i < steps.size() ? steps[i].value("type", "") : std::string(); };
  if (steps.empty() || kind(steps.size() - 1) != "ByteLevel") {
    not_for_llama_cpp("its tokenizer.json is no BPE over bytes; a tokenizer.model (SentencePiece) would do");
  }
  const PlainJson& last = steps.back();
  if (last.value("add_prefix_space", true)) not_for_llama_cpp("it puts a space before texts (add_prefix_space)");
  const bool own_pattern = last.value("use_regex", true);
  if (!has_merges) return "gpt-2";  // without merges each byte is a token, however texts are cut
  std::string_view pattern;
  if (steps.size() == 1 && own_pattern) pattern = gpt2_pattern;
  std::string regex;
  if (steps.size() == 2 && !own_pattern && kind(0) == "Split" && steps[0].value("behavior", "") == "Isolated" &&
      !steps[0].value("invert", false) && steps[0].contains("pattern") && steps[0]["pattern"].contains("Regex")) {
    pattern = regex = steps[0]["pattern"]["Regex"].get<std::string>();
  }
  if (steps.size() == 2 && own_pattern && kind(0) == "Digits" && steps[0].value("individual_digits", false) &&
      !ignore_merges) {
    return "smollm";
  }
  if (pattern == gpt2_pattern && !ignore_merges) return "gpt-2";
  if (pattern == qwen2_pattern && !ignore_merges) return "qwen2";
  if (pattern == llama3_pattern) return ignore_merges ? "llama-bpe" : "smaug-bpe";
  not_for_llama_cpp("it cuts texts into words in none of the ways of GPT-2, Llama 3, Qwen 2 and SmolLM");
}

GgufTokenizer from_byte_level(const PlainJson& json, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const PlainJson& model = json.at("model");
  if (model.value("type", "BPE") != "BPE") not_for_llama_cpp("its model is '", model.value("type", ""), "'");
  GgufTokenizer result;
  std::vector<std::string> merges;
  for (const PlainJson& merge : model.value("merges", PlainJson::array())) {
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  const bool ignore_merges = model.contains("ignore_merges") && model["ignore_merges"] == true;
  const std::string pre = pre_tokenizer_name(json, !merges.empty(), ignore_merges);
  const PlainJson& normalizer = json.contains("normalizer") ? json["normalizer"] : PlainJson();
  if (normalizer.is_object() && normalizer.value("type", "") == "NFC") {
    result.nfc_alone = true;
    result.notes.emplace_back("llama.cpp does not normalise: texts that are not NFC get other ids there");
  } else if (!normalizer.is_null()) {
    not_for_llama_cpp("its normalizer '", normalizer.value("type", ""), "'");
  }
  TokenLists lists;
  const auto size = static_cast<std::size_t>(tokenizer.vocab_size());
  lists.tokens.resize(size);
  lists.types.assign(size, normal_token);
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    lists.tokens[static_cast<std::size_t>(id)] = tokenizer.name() == "byte" ? std::string() : tokenizer.piece(id);
  }
  if (tokenizer.name() == "byte") {
    for (const auto& [token, id] : model.at("vocab").items()) lists.tokens[id.get<std::size_t>()] = token;
  }
  for (const PlainJson& added : json.value("added_tokens", PlainJson::array())) {
    const auto id = added.at("id").get<std::size_t>();
    lists.types[id] = added.value("special", false) ? special_token : added_text;
    if (added.value("lstrip", false) || added.value("rstrip", false) || added.value("single_word", false)) {
      result.notes.push_back(
          concat("llama.cpp takes no white space into the token '", added.value("content", std::string()), "'"));
    }
  }
  fill_up(lists, vocab_size);
  GgufMetadata& meta = result.metadata;
  meta.emplace_back("tokenizer.ggml.model", std::string("gpt2"));
  meta.emplace_back("tokenizer.ggml.pre", pre);
  meta.emplace_back("tokenizer.ggml.tokens", std::move(lists.tokens));
  meta.emplace_back("tokenizer.ggml.token_type", std::move(lists.types));
  meta.emplace_back("tokenizer.ggml.merges", std::move(merges));
  return result;
}

}  // namespace

GgufTokenizer gguf_tokenizer(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  if (tokenizer.vocab_size() > vocab_size) {
    fail(ExitCode::data, "the tokenizer has ", tokenizer.vocab_size(), " ids, the model ", vocab_size);
  }
  GgufTokenizer result;
  if (tokenizer.name() == "sentencepiece") {
    result = from_sentencepiece(read_sentencepieces(saved_tokenizer(tokenizer)), vocab_size);
  } else {
    result = from_byte_level(PlainJson::parse(tokenizer_json(tokenizer).text), tokenizer, vocab_size);
  }
  GgufMetadata& meta = result.metadata;
  const auto id = [&](const char* key, std::int32_t value) {
    if (value >= 0) meta.emplace_back(key, static_cast<std::uint32_t>(value));
  };
  id("tokenizer.ggml.bos_token_id", tokenizer.bos_id());
  id("tokenizer.ggml.eos_token_id", tokenizer.eos_id());
  // As in training: nothing is put around a text.
  meta.emplace_back("tokenizer.ggml.add_bos_token", false);
  meta.emplace_back("tokenizer.ggml.add_eos_token", false);
  return result;
}

}  // namespace satformer
