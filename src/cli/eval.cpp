#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/eval_tasks.h"
#include "cli/model_options.h"
#include "infer/window_loss.h"
#include "io/file.h"

namespace satformer::cli {

int run_eval(std::span<const std::string> arguments) {
  if (asks_for_tasks(arguments)) return run_eval_tasks(arguments);
  ModelOptions model_options;
  std::string data_dir, prefix = "val", output;
  std::int64_t seq_length = 0, batch_size = 8, limit = 0;
  Options options("eval",
                  "Loss and perplexity of a model on token shards: every window once, summed loss over summed "
                  "targets, the same for any batch size.");
  model_options.add_to(options, false);
  options.add("--data-dir,-d", data_dir, "Folder of token shards", true)
      .add("--prefix", prefix, "Shards to read: PREFIX*.bin (default val)")
      .add("--seq-length", seq_length, "Targets per window (0: as the model was trained)")
      .add("--batch-size,-b", batch_size, "Windows at once")
      .add("--limit", limit, "Only the first N windows (0: all)")
      .add("--output,-o", output, "Write the result as JSON to this file");
  options.footer("Tasks, text files and comparisons: 'satformer eval --tasks --help'.");
  if (!options.parse(arguments)) return 0;
  if (batch_size < 1) fail(ExitCode::usage, "--batch-size ", batch_size, " must be at least 1");
  if (limit < 0) fail(ExitCode::usage, "--limit ", limit, " must be at least 0 (0: all windows)");
  if (seq_length < 0) fail(ExitCode::usage, "--seq-length ", seq_length, " must be at least 1 (0: as trained)");

  std::optional<AtomicFile> output_file;  // opened now, so that a bad path is told before the work
  if (!output.empty()) output_file.emplace(output);
  const auto shards = std::make_shared<TokenShards>(data_dir, prefix);
  const LoadedModel loaded = model_options.load();
  Model& model = *loaded.model;
  if (seq_length == 0) seq_length = trained_seq_length(loaded);
  if (seq_length > model.config().max_position_embeddings) {
    fail(ExitCode::config, "--seq-length ", seq_length, " is longer than the model's max_position_embeddings of ",
         model.config().max_position_embeddings);
  }
  shards->check_ids(model.config().vocab_size);
  const TokenWindows windows(shards, seq_length);

  ProgressLine progress;
  WindowLossOptions loss_options;
  loss_options.batch_size = batch_size;
  loss_options.max_windows = limit;
  loss_options.progress = [&](const WindowLoss& r, std::int64_t total) {
    progress.update(concat("eval: ", r.windows, "/", total, " windows, loss ", r.mean()));
    return true;
  };
  const WindowLoss result = window_loss(model, windows, loss_options);
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
