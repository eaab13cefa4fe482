#include <unistd.h>

#include <cstdio>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/edit_options.h"
#include "cli/model_options.h"
#include "infer/generator.h"
#include "io/file.h"

namespace satformer::cli {
namespace {

std::vector<std::int64_t> encode_prompt(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int64_t> ids;
  for (const std::int32_t id : tokenizer.encode(text)) ids.push_back(id);
  // Training documents follow an EOS, so an empty prompt starts a document.
  if (ids.empty()) ids.push_back(tokenizer.eos_id());
  return ids;
}

}  // namespace

int run_generate(std::span<const std::string> arguments) {
  ModelOptions model_options;
  std::vector<std::string> prompts;
  std::string prompt_file;
  EditOptions edit_options;
  GenerateOptions generate_options;
  generate_options.sampling.temperature = 0.8;
  std::int64_t seed = -1, samples = 1, max_new_tokens = -1;
  bool ignore_eos = false, no_stream = false;
  Options options("generate",
                  "Continues prompts. One continuation is streamed as it grows; several are printed when "
                  "they are done, each under its number.");
  model_options.add_to(options, true);
  options
      .add("--prompt,-p", prompts, "Text to continue; may be given several times (default: the start of a document)")
      .may_be_empty("--prompt")
      .may_be_empty("-p")
      .add("--prompt-file", prompt_file, "A file whose whole text is a prompt")
      .add("--max-new-tokens,-n", max_new_tokens,
           "Longest continuation (-1: 100, or what the model's context leaves)")
      .add("--temperature,-t", generate_options.sampling.temperature, "0: always the likeliest token")
      .add("--top-k", generate_options.sampling.top_k, "Choose among the k likeliest tokens (0: all)")
      .add("--top-p", generate_options.sampling.top_p, "Choose among the likeliest tokens of this total probability")
      .add("--seed", seed, "The same seed gives the same text (-1: a new one each time, printed)")
      .add("--num-samples", samples, "Continuations of each prompt")
      .add("--speculate", generate_options.speculate,
           "Tokens proposed at most in a step from the text so far, at temperature 0: the same text sooner (0: none)")
      .flag("--ignore-eos", ignore_eos, "Go on after an end-of-document token")
      .flag("--no-stream", no_stream, "Print only when done");
  edit_options.add_to(options);
  if (!options.parse(arguments)) return 0;
  if (max_new_tokens < 1 && max_new_tokens != -1) {
    fail(ExitCode::usage, "--max-new-tokens ", max_new_tokens, " must be at least 1");
  }
  if (samples < 1 || samples > 4096) {
    fail(ExitCode::usage, "--num-samples ", samples, " must be at least 1 and at most 4096");
  }
  if (seed < -1) fail(ExitCode::usage, "--seed ", seed, " must be at least 0, or -1 for a new one each time");
  check_sampling(generate_options.sampling);
  check_speculation(generate_options.speculate);
  SpeculationCounts speculation;
  if (generate_options.speculate > 0) {
    if (generate_options.sampling.temperature > 0) {
      fail(ExitCode::usage, "--speculate is for --temperature 0 (it is ", generate_options.sampling.temperature, ")");
    }
    generate_options.speculation = &speculation;
  }
  if (seed == -1) {
    seed = static_cast<std::int64_t>(std::random_device{}());
    if (generate_options.sampling.temperature > 0) std::fprintf(stderr, "seed %lld\n", static_cast<long long>(seed));
  }
  generate_options.sampling.seed = static_cast<std::uint64_t>(seed);
  if (!prompt_file.empty()) prompts.push_back(read_file(prompt_file));
  if (prompts.empty()) prompts.emplace_back();

  const LoadedModel loaded = model_options.load();
  const std::unique_ptr<ActiveEdits> edits = edit_options.activate(loaded);
  if (edits) generate_options.observer = edits->observer();
  const std::unique_ptr<Tokenizer> tokenizer = model_options.load_tokenizer_for(loaded);
  if (!ignore_eos) generate_options.stop_token = tokenizer->eos_id();
  std::vector<std::vector<std::int64_t>> rows;
  std::vector<std::string> texts;
  for (const std::string& prompt : prompts) {
    for (std::int64_t i = 0; i < samples; ++i) {
      rows.push_back(encode_prompt(*tokenizer, prompt));
      texts.push_back(prompt);
    }
  }
  std::int64_t longest = 0;
  for (const auto& row : rows) longest = std::max<std::int64_t>(longest, std::ssize(row));
  const std::int64_t room = loaded.model->config().max_position_embeddings - longest;
  if (max_new_tokens > 0) {
    generate_options.max_new_tokens = max_new_tokens;
  } else if (room > 0) {
    generate_options.max_new_tokens = std::min(generate_options.max_new_tokens, room);
  }
  const auto flush = [] {
    if (std::fflush(stdout) != 0) fail(ExitCode::system, "cannot write to standard output");
  };
  const bool stream = rows.size() == 1 && !no_stream;
  StreamDecoder decoder(*tokenizer);
  if (stream) {
    // The prompt's ids come first, so that the first new piece joins them as it would in running text.
    for (const std::int64_t id : rows[0]) decoder.push(static_cast<std::int32_t>(id));
    // The prompt is printed with the first token: nothing comes before an error.
    generate_options.on_token = [&, first = true](std::size_t, std::int64_t id) mutable {
      if (std::exchange(first, false)) std::fwrite(texts[0].data(), 1, texts[0].size(), stdout);
      const std::string piece = decoder.push(static_cast<std::int32_t>(id));
      std::fwrite(piece.data(), 1, piece.size(), stdout);
      flush();
      return true;
    };
  }
  const auto results = generate(*loaded.model, rows, generate_options);
  const auto tell_speculation = [&] {
    if (generate_options.speculate == 0) return;
    flush();
    std::fprintf(stderr, "speculation: %lld of %lld proposed tokens accepted; %lld tokens in %lld passes\n",
                 static_cast<long long>(speculation.accepted), static_cast<long long>(speculation.proposed),
                 static_cast<long long>(speculation.tokens), static_cast<long long>(speculation.passes));
  };
  if (stream) {
    if (results[0].empty()) std::fwrite(texts[0].data(), 1, texts[0].size(), stdout);
    std::printf("%s\n", decoder.finish().c_str());
    tell_speculation();
    return 0;
  }
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::vector<std::int32_t> ids(rows[r].begin(), rows[r].end());
    ids.insert(ids.end(), results[r].begin(), results[r].end());
    if (rows.size() > 1) std::printf("--- %zu\n", r + 1);
    std::printf("%s\n", tokenizer->decode(ids).c_str());
  }
  tell_speculation();
  return 0;
}

}  // namespace satformer::cli
