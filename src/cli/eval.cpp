#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/eval_tasks.h"
#include "cli/window_options.h"

namespace satformer::cli {

int run_eval(std::span<const std::string> arguments) {
  if (asks_for_tasks(arguments)) return run_eval_tasks(arguments);
  ModelOptions model_options;
  WindowOptions window_options;
  Options options("eval",
                  "Loss and perplexity of a model on token shards: every window once, summed loss over summed "
                  "targets, the same for any batch size.");
  model_options.add_to(options, false);
  window_options.add_to(options, true);
  options.footer("Tasks, text files and comparisons: 'satformer eval --tasks --help'.");
  if (!options.parse(arguments)) return 0;

  const std::unique_ptr<AtomicFile> output_file = window_options.check_and_open_output();
  const LoadedModel loaded = model_options.load();
  Model& model = *loaded.model;
  const TokenWindows windows = window_options.open(loaded);
  const std::string &data_dir = window_options.data_dir, &prefix = window_options.prefix;
  const std::int64_t seq_length = windows.seq_length();

  ProgressLine progress;
  const WindowLoss result = window_loss(model, windows, window_options.loss_options(loaded, "eval", true, progress));
  if (!std::isfinite(result.loss_sum))
    fail(ExitCode::non_finite, "the model's loss on '", data_dir, "' is not finite");
  progress.finish(concat("eval: ", result.windows, " windows done"));

  const double loss = result.mean();
  std::printf("model       %s (%s)\n", loaded.directory.c_str(), model.architecture().c_str());
  std::printf("data        %s/%s*.bin\n", data_dir.c_str(), prefix.c_str());
  std::printf("windows     %lld of %lld tokens, %lld targets\n", static_cast<long long>(result.windows),
              static_cast<long long>(seq_length), static_cast<long long>(result.targets));
  std::printf("loss        %.6f nats per token\n", loss);
  std::printf("perplexity  %.4f\n", std::exp(loss));
  if (output_file) {
    Json json;
    json["model"] = loaded.directory;
    json["architecture"] = model.architecture();
    json["data_dir"] = data_dir;
    json["prefix"] = prefix;
    json["seq_length"] = seq_length;
    json["windows"] = result.windows;
    json["targets"] = result.targets;
    json["loss"] = loss;
    json["perplexity"] = std::exp(loss);
    output_file->write(json.dump(2) + "\n");
    output_file->commit();
  }
  return 0;
}

}  // namespace satformer::cli
