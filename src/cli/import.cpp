// satformer import: models of other programs as ours.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/hf/import.h"
#include "checkpoint/run_folder.h"
#include "cli/command.h"
#include "cli/export_check.h"
#include "cli/model_options.h"
#include "cli/model_target.h"
#include "nn/device.h"

namespace satformer::cli {

int run_import(std::span<const std::string> arguments) {
  std::string from, source, output, tokenizer_spec, python;
  double tolerance = 2e-5;
  int threads = 0;
  bool overwrite = false, no_tokenizer = false;
  Options options(
      "import",
      "Makes a model folder from a folder in the form of Hugging Face: our own exports, the SATFormer authors' "
      "checkpoints, and decoders of the kinds Llama, Mistral, Qwen2, Qwen3 and GPT-2. What they have and this "
      "program "
      "lacks is refused by name.");
  options.add("--from", from, "hf: a folder with config.json and safetensors or pytorch_model.bin", true)
      .add("source", source, "The folder", true)
      .add("--output,-o", output, "Model folder to write", true)
      .add("--tokenizer", tokenizer_spec, "Tokenizer to take instead of the one in the folder")
      .flag("--no-tokenizer", no_tokenizer, "Take the weights alone")
      .add("--python", python,
           "Python with transformers: the folder is loaded by it too, and logits and ids are compared")
      .add("--tolerance", tolerance,
           "Largest difference of logits that passes then, times the largest |logit| where that is above 1")
      .flag("--overwrite", overwrite, "Replace what the folder holds")
      .add("--threads", threads, "CPU threads (0: all)");
  if (!options.parse(arguments)) return 0;
  if (from != "hf") {
    const std::vector<std::string> known = {"hf"};
    fail(ExitCode::usage, "--from '", from, "' is not one of: hf.", did_you_mean(from, known));
  }
  if (no_tokenizer && !tokenizer_spec.empty()) {
    fail(ExitCode::usage, "--tokenizer and --no-tokenizer exclude one another");
  }
  check_model_target(output, overwrite);
  set_num_threads(threads);

  std::vector<std::string> remarks;
  const LoadedModel loaded = import_hf_model(source, at::Device(at::kCPU), &remarks);
  Model& model = *loaded.model;
  const std::unique_ptr<Tokenizer> tokenizer = no_tokenizer ? nullptr : tokenizer_beside(loaded, tokenizer_spec);
  if (!python.empty()) {
    const ExportCheck check = check_export(model, tokenizer.get(), source, python, true);
    print_check(check);
    if (!check.passes(tolerance)) {
      const std::string problem = check.transformers ? check.transformers->problem : std::string();
      fail(ExitCode::check_failed, "transformers and this program differ",
           problem.empty() ? concat(" by more than ", tolerance, " of the largest logit, ", check.size)
                           : ": " + problem,
           "; nothing was written");
    }
  }
  if (stored_type(loaded.directory) == at::kBFloat16) model.parameters().to(at::kBFloat16);
  write_model_folder(model, tokenizer.get(), output);
  std::printf("imported      %s to %s: %s, %s parameters\n", source.c_str(), output.c_str(),
              model.architecture().c_str(), human_count(static_cast<double>(model.parameters().count())).c_str());
  if (!tokenizer) std::printf("tokenizer     none\n");
  std::fflush(stdout);
  for (const std::string& remark : remarks) std::fprintf(stderr, "note: %s\n", remark.c_str());
  return 0;
}

}  // namespace satformer::cli
