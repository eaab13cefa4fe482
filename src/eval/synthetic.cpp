#include "eval/synthetic.h"

#include <algorithm>

#include "base/error.h"
#include "data/synthetic/windows.h"
#include "infer/window_loss.h"

namespace satformer {
namespace {

Task describe(const SyntheticTask& synthetic) {
  Task task;
  task.name = synthetic.name;
  task.version = 1;
  task.summary = synthetic.summary;
  task.kind = RequestKind::likelihood;
  task.split = "generated";
  task.metrics = {{"acc"}};
  if (synthetic.targets.size() > 1) {
    for (const TokenKind kind : synthetic.targets) task.metrics.push_back({concat("acc_", kind_name(kind))});
  }
  task.metrics.push_back({"exact_match"});
  return task;
}

void check_model(const SyntheticWindows& windows, const SyntheticTask& task, const ModelConfig& model) {
  if (windows.vocab_size() > model.vocab_size) {
    fail(ExitCode::config, "task ", task.name, " has ", windows.vocab_size(), " ids, the model's vocabulary ",
         model.vocab_size, " (--synthetic.vocab_size sets another number)");
  }
  if (windows.seq_length() > model.max_position_embeddings) {
    fail(ExitCode::config, "task ", task.name, " has examples of ", windows.seq_length(),
         " tokens, the model's longest context is ", model.max_position_embeddings,
         " (--synthetic.seq_length sets another number)");
  }
}

std::string joined(std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
  return text;
}

Sample make_sample(const WindowScore& score, const SyntheticExample& example, const SyntheticTask& synthetic) {
  Sample sample;
  sample.id = score.window;
  std::vector<std::int32_t> targets;
  for (std::size_t t = 0; t < example.ids.size(); ++t) {
    if (example.marks[t].counted()) targets.push_back(example.ids[t]);
  }
  sample.question.document = {{"example", score.window}, {"ids", example.ids}};
  sample.question.target = joined(targets);
  sample.arguments = {{joined(example.ids), sample.question.target}};
  const Accuracy all = score.accuracy.all();
  sample.response.likelihoods = {{-score.counted_loss, all.correct == all.targets}};
  sample.response.tokens = all.targets;
  const auto share = [](const Accuracy& a) { return Score{a.value(), a.targets > 0 ? 1.0 : 0.0}; };
  sample.scores = {share(all)};
  if (synthetic.targets.size() > 1) {
    for (const TokenKind kind : synthetic.targets) {
      sample.scores.push_back(share(score.accuracy.kinds[static_cast<std::size_t>(kind)]));
    }
  }
  sample.scores.push_back({all.correct == all.targets ? 1.0 : 0.0});
  return sample;
}

}  // namespace

TaskResult evaluate_synthetic(const SyntheticOptions& options, const SyntheticEval& eval) {
  const SyntheticTask& synthetic = synthetic_task(options);
  const SyntheticWindows windows(options, eval.tokenizer, evaluation_examples, options.val_examples);
  check_model(windows, synthetic, eval.model.config());
  TaskResult result;
  result.task = describe(synthetic);
  result.documents = options.val_examples;
  result.settings = synthetic_settings(options, eval.tokenizer);

  WindowLossOptions loss;
  loss.batch_size = eval.batch_size;
  loss.max_windows = eval.limit;
  loss.marked = true;
  loss.observer = eval.observer;
  if (synthetic.text) loss.document_end = eval.document_end;
  loss.scored = [&](const WindowScore& score) {
    result.samples.push_back(make_sample(score, windows.example(score.window), synthetic));
  };
  loss.progress = [&](const WindowLoss& so_far, std::int64_t total) {
    if (eval.progress) eval.progress(concat(synthetic.name, ": ", so_far.windows, "/", total, " examples"));
    return true;
  };
  window_loss(eval.model, windows, loss);
  for (std::size_t m = 0; m < result.task.metrics.size(); ++m) {
    std::vector<Score> scores;
    for (const Sample& sample : result.samples) scores.push_back(sample.scores[m]);
    const bool any = std::any_of(scores.begin(), scores.end(), [](const Score& s) { return s.weight > 0; });
    result.metrics.push_back(any ? std::optional(aggregate(Aggregation::mean, scores, 1)) : std::nullopt);
  }
  return result;
}

}  // namespace satformer
