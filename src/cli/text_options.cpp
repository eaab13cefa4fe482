#include "cli/text_options.h"

#include <charconv>

#include "base/error.h"

namespace satformer::cli {

void TextOptions::add_to(Options& options) {
  model.add_to(options, true);
  options.add("--context", context, "Longest input in tokens (0: the model's longest)")
      .add("--batch-size,-b", batch_size, "Rows at once")
      .flag("--add-bos", add_bos, "Put BOS before every text (default: none)")
      .add("--prefix-token", prefix_token,
           "What stands before a text without context: bos, eos or an id (auto: BOS if there is one, else EOS)");
  edit.add_to(options);
}

void TextOptions::check() const {
  if (batch_size < 1) fail(ExitCode::usage, "--batch-size ", batch_size, " must be at least 1");
  if (context < 0) fail(ExitCode::usage, "--context ", context, " must be at least 1 (0: the model's longest)");
}

LoadedText load_text_model(const TextOptions& options) {
  LoadedText result{options.model.load(), nullptr, nullptr};
  result.edits = options.edit.activate(result.loaded);
  result.tokenizer = options.model.load_tokenizer_for(result.loaded);
  const Model& model = *result.loaded.model;
  const std::int64_t longest = model.config().max_position_embeddings;
  if (options.context > longest) {
    fail(ExitCode::config, "--context ", options.context, " is longer than the model's max_position_embeddings of ",
         longest);
  }
  const Tokenizer& tokenizer = *result.tokenizer;
  std::int64_t prefix = default_prefix_token(tokenizer);
  const std::string& asked = options.prefix_token;
  if (asked == "eos") {
    prefix = tokenizer.eos_id();
  } else if (asked == "bos") {
    prefix = tokenizer.bos_id();
  } else if (asked != "auto") {
    const auto parsed = std::from_chars(asked.data(), asked.data() + asked.size(), prefix);
    if (parsed.ec != std::errc() || parsed.ptr != asked.data() + asked.size()) {
      fail(ExitCode::usage, "--prefix-token '", asked, "' is not one of: auto, bos, eos, the id of a token");
    }
  }
  if (prefix < 0 || prefix >= model.config().vocab_size) {
    fail(ExitCode::usage, "--prefix-token ", asked, ": the tokenizer has no such token");
  }
  if (options.add_bos && tokenizer.bos_id() < 0) fail(ExitCode::usage, "--add-bos: the tokenizer has no BOS");
  result.text = std::make_unique<TextModel>(TextModel{.model = *result.loaded.model,
                                                      .tokenizer = tokenizer,
                                                      .max_length = options.context > 0 ? options.context : longest,
                                                      .prefix_token = prefix,
                                                      .add_bos = options.add_bos,
                                                      .observer = result.edits ? result.edits->observer() : nullptr});
  return result;
}

}  // namespace satformer::cli
