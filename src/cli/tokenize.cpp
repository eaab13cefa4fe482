// satformer tokenize: text to ids and back.
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/unicode.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "cli/options.h"
#include "io/file.h"
#include "io/tokenizer.h"

namespace satformer::cli {
namespace {

std::vector<std::int32_t> parse_ids(const std::string& text, const Tokenizer& tokenizer) {
  std::vector<std::int32_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    if (std::string_view(" \n\t\r,[]").find(text[at]) != std::string_view::npos) {
      ++at;
      continue;
    }
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), id);
    if (error != std::errc() || id < 0 || id >= tokenizer.vocab_size()) {
      const std::size_t stop = std::min(text.find_first_of(" \n\t\r,[]", at), text.size());
      fail(ExitCode::data, "--decode: '", replace_invalid_utf8(text.substr(at, std::min<std::size_t>(stop - at, 40))),
           "' is not a token id below ", tokenizer.vocab_size());
    }
    ids.push_back(static_cast<std::int32_t>(id));
    at = static_cast<std::size_t>(end - text.data());
  }
  return ids;
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string ids_text(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text + "\n";
}

std::string pieces_text(const std::vector<std::int32_t>& ids, const Tokenizer& tokenizer) {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string bytes = replace_invalid_utf8(tokenizer.token_bytes(id, false));
    text += concat(id, "\t", replace_invalid_utf8(tokenizer.piece(id)), "\t", nlohmann::json(bytes).dump(), "\n");
  }
  return text;
}

}  // namespace

int run_tokenize(std::span<const std::string> arguments) {
  std::string spec, file = "-", text;
  bool decode = false, pieces = false, count = false, lines = false, bos = false, eos = false;
  Options options("tokenize", "Token ids of a text, or the text of token ids (--decode).");
  options
      .add("--tokenizer,-t", spec,
           "\"byte\", a SentencePiece model, a tokenizer.json, or a folder that holds one (a model's, for instance)",
           true)
      .add("--text", text, "The text, or the ids with --decode (default: from the file)")
      .add("input", file, "File to read; - for standard input (the default)")
      .flag("--decode", decode, "From ids (separated by spaces, commas or line ends) to text")
      .flag("--pieces", pieces, "One line for each token: id, piece, text")
      .flag("--count", count, "The number of tokens alone")
      .flag("--lines", lines, "Each line of the input on its own, without its line end")
      .flag("--bos", bos, "The begin-of-sequence id first")
      .flag("--eos", eos, "The end-of-sequence id last");
  if (!options.parse(arguments)) return 0;
  if (decode + pieces + count > 1) fail(ExitCode::usage, "--decode, --pieces and --count exclude one another");
  if (decode && (bos || eos)) fail(ExitCode::usage, "--bos and --eos are for texts, not with --decode");
  const bool has_text = !text.empty();
  if (has_text && file != "-") fail(ExitCode::usage, "--text and the file '", file, "' exclude one another");

  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(spec);
  if (bos && tokenizer->bos_id() < 0) fail(ExitCode::data, "--bos: the tokenizer has no begin-of-sequence token");
  if (!has_text && file != "-") text = read_file(file);
  if (!has_text && file == "-") text = read_standard_input();

  std::vector<std::string> parts;
  if (!lines) parts.push_back(std::move(text));
  for (std::size_t at = 0; lines && at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::size_t total = 0;
  for (const std::string& part : parts) {
    if (decode) {
      print(tokenizer->decode(parse_ids(part, *tokenizer)) + (lines ? "\n" : ""));
      continue;
    }
    std::vector<std::int32_t> ids = tokenizer->encode(part);
    if (bos) ids.insert(ids.begin(), tokenizer->bos_id());
    if (eos) ids.push_back(tokenizer->eos_id());
    total += ids.size();
    if (!count) print(pieces ? pieces_text(ids, *tokenizer) : ids_text(ids));
  }
  if (count) std::printf("%zu\n", total);
  return 0;
}

}  // namespace satformer::cli
