// satformer export: a model as files of other programs, proved by loading it again.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/hf/export.h"
#include "checkpoint/run_folder.h"
#include "cli/command.h"
#include "cli/export_check.h"
#include "cli/export_gguf.h"
#include "cli/model_card.h"
#include "cli/model_options.h"
#include "cli/model_target.h"
#include "io/file.h"
#include "io/tokenizer_export.h"
#include "nn/device.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

// "500MB", "2GiB", "1000000".
std::int64_t parse_size(const std::string& text) {
  std::size_t digits = 0;
  double value = 0;
  try {
    value = std::stod(text, &digits);
  } catch (const std::exception&) {
    digits = 0;
  }
  const std::string unit = text.substr(digits);
  const std::pair<const char*, double> units[] = {{"", 1},     {"B", 1},      {"KB", 1e3},      {"MB", 1e6},
                                                  {"GB", 1e9}, {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};
  for (const auto& [name, factor] : units) {
    if (digits > 0 && unit == name && value * factor >= 1 && value * factor < 9e18) {
      return static_cast<std::int64_t>(value * factor);
    }
  }
  fail(ExitCode::usage, "--max-shard-size '", text, "' is not a size such as 500MB, 5GB or 2GiB");
}

void write_tokenizer(const Tokenizer& tokenizer, std::int64_t context, const std::string& directory,
                     ModelCard& card) {
  tokenizer.save(directory);  // the SentencePiece model stays beside its translation
  const TokenizerJson translated = tokenizer_json(tokenizer);
  card.tokenizer = tokenizer.name();
  card.no_tokenizer_json = translated.why_not;
  if (!translated.text.empty()) write_file_atomic(directory + "/tokenizer.json", translated.text);
  write_file_atomic(directory + "/tokenizer_config.json", tokenizer_config_json(tokenizer, context));
}

}  // namespace

int run_export(std::span<const std::string> arguments) {
  std::string to, directory, max_shard_size = "5GB", python, dtype = "stored";
  double tolerance = 2e-5;
  bool overwrite = false, no_check = false, no_tokenizer = false;
  ModelOptions model_options;
  Options options(
      "export",
      "Writes a model for other programs and proves it: what was written is loaded again, by this program and, where "
      "Python has them, by transformers or llama.cpp (llama-cpp-python), and logits, greedy continuations and token "
      "ids are compared.");
  options
      .add("--to", to,
           "hf: a folder for Hugging Face transformers; gguf: a file for llama.cpp (plain decoders alone)", true)
      .add("directory", directory, "Folder to write; with gguf also FILE.gguf", true)
      .add("--model,-m", model_options.model, "Model folder, checkpoint or run folder (its final or newest model)",
           true)
      .add("--tokenizer", model_options.tokenizer,
           "\"byte\", a tokenizer's file or its folder (default: beside the model)")
      .add("--dtype", dtype,
           "Type of the weights: stored (default: as they are), float32 or bfloat16; gguf also float16 and q8_0")
      .add("--max-shard-size", max_shard_size, "Weights above it are cut into several files")
      .add("--tolerance", tolerance,
           "Largest difference of logits that passes, times the largest |logit| where that is above 1")
      .add("--python", python,
           "Python to ask with transformers or llama-cpp-python (default: python3, if it has them)")
      .flag("--no-tokenizer", no_tokenizer, "Leave the tokenizer out")
      .flag("--no-check", no_check, "Write without the proof")
      .flag("--overwrite", overwrite, "Replace what the folder holds")
      .add("--threads", model_options.threads, "CPU threads (0: all)");
  if (!options.parse(arguments)) return 0;
  if (to != "hf" && to != "gguf") {
    const std::vector<std::string> known = {"hf", "gguf"};
    fail(ExitCode::usage, "--to '", to, "' is not one of: hf, gguf.", did_you_mean(to, known));
  }
  if (!(tolerance >= 0)) fail(ExitCode::usage, "--tolerance ", tolerance, " must be at least 0");
  if (no_check && !python.empty()) fail(ExitCode::usage, "--no-check and --python exclude one another");
  if (no_tokenizer && !model_options.tokenizer.empty()) {
    fail(ExitCode::usage, "--tokenizer and --no-tokenizer exclude one another");
  }
  const std::int64_t max_shard_bytes = parse_size(max_shard_size);
  if (to == "gguf") {
    if (max_shard_size != "5GB") fail(ExitCode::usage, "--max-shard-size goes with --to hf: GGUF is one file");
    export_gguf({directory, model_options, dtype, python, tolerance, overwrite, !no_check, !no_tokenizer});
    return 0;
  }
  if (dtype != "stored") parse_dtype(dtype);
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  check_model_target(directory, overwrite);

  const LoadedModel loaded = model_options.load();
  Model& model = *loaded.model;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!no_tokenizer) tokenizer = tokenizer_beside(loaded, model_options.tokenizer);
  if (dtype == "bfloat16" || (dtype == "stored" && stored_type(loaded.directory) == at::kBFloat16)) {
    model.parameters().to(at::kBFloat16);
  }
  const HfForm form = hf_form(model.config());
  HfTokenIds ids{model.config().bos_token_id, model.config().eos_token_id};
  if (tokenizer) ids = {tokenizer->bos_id(), tokenizer->eos_id()};
  ModelCard card{.model = model, .form = form};

  const fs::path target = fs::absolute(directory).lexically_normal();
  make_directories(target.parent_path().string());
  RunFolder(target.parent_path().string()).replace_folder(target.string(), [&](const std::string& temporary) {
    write_hf_model(model, form, ids, max_shard_bytes, temporary);
    if (tokenizer) write_tokenizer(*tokenizer, model.config().max_position_embeddings, temporary, card);
    if (!no_check) {
      // Both sides compute in fp32 from the weights as they were written.
      model.parameters().to(at::kFloat);
      card.check =
          check_export(model, tokenizer.get(), temporary, python.empty() ? "python3" : python, !python.empty());
      print_check(*card.check);
      if (!card.check->passes(tolerance)) {
        const std::string& problem = card.check->transformers ? card.check->transformers->problem : std::string();
        fail(ExitCode::check_failed, "the export differs from the model by more than ", tolerance,
             " of the largest logit, ", card.check->size, problem.empty() ? "" : " (" + problem + ")",
             "; nothing was written");
      }
    }
    write_file_atomic(temporary + "/README.md", card.text());
  });
  std::printf("exported      %s as %s to %s\n", loaded.directory.c_str(), hf_class(model, form).c_str(),
              directory.c_str());
  if (!card.no_tokenizer_json.empty()) {
    std::printf("tokenizer     tokenizer.model alone, without tokenizer.json: %s\n", card.no_tokenizer_json.c_str());
  } else if (!tokenizer && !no_tokenizer) {
    std::printf("tokenizer     none: there is none beside the model; --tokenizer names one\n");
  }
  return 0;
}

}  // namespace satformer::cli
