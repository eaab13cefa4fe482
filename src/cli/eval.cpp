#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/edit_options.h"
#include "cli/eval_tasks.h"
#include "cli/rank_session.h"
#include "cli/window_options.h"
#include "distributed/agree.h"
#include "distributed/data_parallel.h"
#include "infer/window_loss_ranks.h"

namespace satformer::cli {
namespace {

// The ranks evaluate one model on the same windows: rank 0's, and as many.
void share_evaluation(Communicator& ranks, Model& model, const TokenWindows& windows,
                      const WindowLossOptions& options, const std::string& edit) {
  if (ranks.size() == 1) return;
  const std::string own =
      concat(model.architecture(), " of ", model.parameters().count(), " parameters on ", windows.size(),
             " windows of ", windows.seq_length(), ", --limit ", options.max_windows,
             options.marked ? ", marked" : "", edit.empty() ? "" : ", --edit ", edit);
  const std::string first = ranks.broadcast_text(own, 0);
  if (own != first) {
    fail(ExitCode::config, "the ranks are not of one evaluation: ", own, " here and ", first, " on rank 0");
  }
  broadcast_parameters(model.parameters(), ranks);
}

int evaluate_windows(const ModelOptions& model_options, const WindowOptions& window_options,
                     const EditOptions& edit_options, const std::string& targets, Communicator& ranks) {
  const bool first = ranks.rank() == 0;  // it alone reports
  window_options.check();
  const std::unique_ptr<AtomicFile> output_file = first ? window_options.check_and_open_output() : nullptr;
  const LoadedModel loaded = model_options.of_rank(ranks).load();
  const at::Device device = loaded.model->parameters().device();
  if (device.is_cuda() && ranks.size() > 1) ranks.use_gpu(device);
  const std::unique_ptr<ActiveEdits> edits = edit_options.activate(loaded);
  Model& model = *loaded.model;
  const TokenWindows windows = window_options.open(loaded);
  const std::string &data_dir = window_options.data_dir, &prefix = window_options.prefix;
  const std::int64_t seq_length = windows.seq_length();

  ProgressLine progress;
  WindowLossOptions loss_options = window_options.loss_options(loaded, "eval", true, progress);
  if (targets == "marked" && !windows.has_marks()) {
    fail(ExitCode::data, "--targets marked: the shards in '", data_dir, "' have no marks of the targets that count");
  }
  if (edits) loss_options.observer = edits->observer();
  loss_options.marked = windows.has_marks() && targets != "all";
  if (!first) loss_options.progress = {};
  share_evaluation(ranks, model, windows, loss_options, edit_options.edit);
  bool stopped = false;
  const WindowLoss result = ranks.size() == 1 ? window_loss(model, windows, loss_options)
                                              : window_loss_over_ranks(model, windows, loss_options, ranks, stopped);
  if (!first) return 0;
  if (!std::isfinite(result.loss_sum))
    fail(ExitCode::non_finite, "the model's loss on '", data_dir, "' is not finite");
  progress.finish(concat("eval: ", result.windows, " windows done"));

  const double loss = result.mean();
  std::printf("model       %s (%s)\n", loaded.directory.c_str(), model.architecture().c_str());
  if (edits) std::printf("edit        %s\n", edit_options.edit.c_str());
  std::printf("data        %s/%s*.bin\n", data_dir.c_str(), prefix.c_str());
  std::printf("windows     %lld of %lld tokens, %lld targets\n", static_cast<long long>(result.windows),
              static_cast<long long>(seq_length), static_cast<long long>(result.targets));
  std::printf("loss        %.6f nats per token\n", loss);
  std::printf("perplexity  %.4f\n", std::exp(loss));
  const Accuracy accuracy = result.accuracy.all();
  const auto print_accuracy = [](const std::string& name, const Accuracy& a) {
    std::printf("%-11s %.4f of %lld targets\n", name.c_str(), a.value(), static_cast<long long>(a.targets));
  };
  if (windows.has_marks()) print_accuracy("accuracy", accuracy);
  for (std::size_t kind = 0; kind < num_token_kinds; ++kind) {
    const Accuracy& of_kind = result.accuracy.kinds[kind];
    if (of_kind.targets > 0) print_accuracy(concat("  ", token_kind_names[kind]), of_kind);
  }
  if (output_file) {
    Json json;
    json["model"] = loaded.directory;
    json["architecture"] = model.architecture();
    json["data_dir"] = data_dir;
    if (edits) json["edit"] = edit_options.edit;
    json["prefix"] = prefix;
    json["seq_length"] = seq_length;
    json["windows"] = result.windows;
    json["targets"] = result.targets;
    json["loss"] = loss;
    json["perplexity"] = std::exp(loss);
    if (windows.has_marks()) json["accuracy"] = accuracy.value();
    for (std::size_t kind = 0; kind < num_token_kinds; ++kind) {
      const Accuracy& of_kind = result.accuracy.kinds[kind];
      if (of_kind.targets > 0) json[concat("accuracy/", token_kind_names[kind])] = of_kind.value();
    }
    output_file->write(json.dump(2) + "\n");
    output_file->commit();
  }
  return 0;
}

}  // namespace

int run_eval(std::span<const std::string> arguments) {
  if (asks_for_tasks(arguments)) return run_eval_tasks(arguments);
  std::string targets;
  ModelOptions model_options;
  WindowOptions window_options;
  EditOptions edit_options;
  Options options("eval",
                  "Loss and perplexity of a model on token shards: every window once, summed loss over summed "
                  "targets, the same for any batch size.");
  model_options.add_to(options, false);
  window_options.add_to(options, true);
  double timeout = default_rank_timeout;
  options.add("--timeout", timeout,
              "with several ranks: seconds until one that is stopped, stuck or missing is given up");
  options.add("--targets", targets, "all or marked (default: marked where the shards have marks)");
  edit_options.add_to(options);
  options.footer("Tasks, text files and comparisons: 'satformer eval --tasks --help'.");
  if (!options.parse(arguments)) return 0;

  if (!targets.empty() && targets != "all" && targets != "marked") {
    fail(ExitCode::usage, "--targets '", targets, "' is not one of: all, marked");
  }
  RankSession session(timeout);
  return session.run([&](Communicator& ranks) {
    return evaluate_windows(model_options, window_options, edit_options, targets, ranks);
  });
}

}  // namespace satformer::cli
