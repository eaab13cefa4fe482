// satformer retrofit: adds a value path to a trained model.
#include <ATen/core/grad_mode.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/hf/import.h"
#include "checkpoint/retrofit.h"
#include "cli/command.h"
#include "cli/export_check.h"
#include "cli/model_options.h"
#include "cli/model_target.h"
#include "models/registry.h"
#include "nn/device.h"

namespace satformer::cli {
namespace {

// A folder of ours, or of a kind that `import` reads.
LoadedModel load_base(const std::string& path) {
  const std::string config_path = path + "/config.json";
  const Json config =
      std::filesystem::exists(config_path) ? read_json_file(config_path, ExitCode::checkpoint) : Json();
  return is_importable(config) ? import_hf_model(path, at::Device(at::kCPU)) : load_model(path, at::Device(at::kCPU));
}

}  // namespace

int run_retrofit(std::span<const std::string> arguments) {
  std::string from, addition, output;
  std::int64_t seed = 42;
  int threads = 0;
  bool overwrite = false;
  Options options(
      "retrofit",
      "Adds a value path to a trained model: the new model starts as the same function (gates of tanh or "
      "identity at zero, ResFormer's mix at 0 V1 + 1 V, LIMe's router at the identity) and is then trained by "
      "'satformer train' with model.from_pretrained. Its logits are compared with the old model's.");
  options.add("--from", from, "Model folder, run folder, or a folder that 'satformer import' reads", true)
      .add("--add", addition,
           "satformer, resformer or lime, with fields in brackets: satformer[gate=tanh,last_k=4]. gate, granularity, "
           "sources, "
           "layers, last_k, place, ffn, bias, std, or the full names of docs/value-paths.md; lists as 0;1",
           true)
      .add("--output,-o", output, "Model folder to write", true)
      .add("--seed", seed, "Of new weights that do not start at zero")
      .flag("--overwrite", overwrite, "Replace what the folder holds")
      .add("--threads", threads, "CPU threads (0: all)");
  if (!options.parse(arguments)) return 0;
  check_model_target(output, overwrite);
  set_num_threads(threads);

  const LoadedModel base = load_base(from);
  const RetrofitPlan plan = plan_retrofit(addition, base.model->config());
  const std::unique_ptr<Model> model = retrofit(*base.model, plan, static_cast<std::uint64_t>(seed));
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_beside(base, {});
  const LogitDifference difference = compare_logits(*base.model, *model);
  std::printf(
      "added         %s to %s: %s of %s parameters are new\n", addition.c_str(), base.directory.c_str(),
      human_count(static_cast<double>(model->parameters().count() - base.model->parameters().count())).c_str(),
      human_count(static_cast<double>(model->parameters().count())).c_str());
  std::printf("logits        max |delta| %.2e at the start; the largest is %.3g%s\n", difference.largest,
              difference.size, plan.exact ? "" : " (this gate does not start at zero)");
  // An identity matrix gives the same numbers, but attention may read them in another order of memory.
  const double allowed = plan.value_path == "lime" ? 2e-5 * difference.size : 0;
  if (plan.exact && !(difference.largest <= allowed)) {
    fail(ExitCode::check_failed, "the new model's logits differ by ", difference.largest,
         " where they should be equal");
  }
  if (stored_type(base.directory) == at::kBFloat16) model->parameters().to(at::kBFloat16);
  write_model_folder(*model, tokenizer.get(), output);
  const std::string& architecture = model->architecture();
  std::printf(
      "written       %s (%s); train it with --model.class_name=%s --model.from_pretrained=true "
      "--model.pretrained_path=%s\n",
      output.c_str(), architecture.c_str(), architecture_by_name(architecture).class_name.c_str(), output.c_str());
  return 0;
}

}  // namespace satformer::cli
