#include "eval/synthetic.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "data/synthetic/windows.h"
#include "distributed/agree.h"
#include "infer/window_loss_ranks.h"

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

Json score_json(const WindowScore& score) {
  Json counts = Json::array();
  for (const Accuracy& a : score.accuracy.kinds) counts.push_back({a.correct, a.targets});
  return {score.window, score.counted_loss, counts};
}

WindowScore score_from_json(const Json& json) {
  WindowScore score{
      json.at(0).get<std::int64_t>(), json.at(1).is_null() ? std::nan("") : json.at(1).get<double>(), {}};
  for (std::size_t kind = 0; kind < score.accuracy.kinds.size(); ++kind) {
    const Json& count = json.at(2).at(kind);
    score.accuracy.kinds[kind] = {count.at(0).get<std::int64_t>(), count.at(1).get<std::int64_t>()};
  }
  return score;
}

// The scores of all windows, in their order, on all ranks.
std::vector<WindowScore> window_scores(Model& model, const WindowSource& windows, WindowLossOptions options,
                                       Communicator* ranks) {
  std::vector<WindowScore> scores;
  options.scored = [&](const WindowScore& score) { scores.push_back(score); };
  if (!ranks || ranks->size() == 1) {
    window_loss(model, windows, options);
    return scores;
  }
  bool stopped = false;
  window_loss_over_ranks(model, windows, options, *ranks, stopped);
  const std::int64_t all = options.max_windows > 0 ? std::min(options.max_windows, windows.size()) : windows.size();
  const std::int64_t first = share_of_rank(all, ranks->rank(), ranks->size()).begin;
  Json own = Json::array();
  for (WindowScore& score : scores) {
    score.window += first;
    own.push_back(score_json(score));
  }
  scores.clear();
  for (const std::string& text : texts_of_ranks(*ranks, own.dump())) {
    for (const Json& json : parse_json(text, "scores of a rank")) scores.push_back(score_from_json(json));
  }
  return scores;
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
  loss.progress = [&](const WindowLoss& so_far, std::int64_t total) {
    if (eval.progress) eval.progress(concat(synthetic.name, ": ", so_far.windows, "/", total, " examples"));
    return true;
  };
  for (const WindowScore& score : window_scores(eval.model, windows, loss, eval.ranks)) {
    result.samples.push_back(make_sample(score, windows.example(score.window), synthetic));
  }
  for (std::size_t m = 0; m < result.task.metrics.size(); ++m) {
    std::vector<Score> scores;
    for (const Sample& sample : result.samples) scores.push_back(sample.scores[m]);
    const bool any = std::any_of(scores.begin(), scores.end(), [](const Score& s) { return s.weight > 0; });
    result.metrics.push_back(any ? std::optional(aggregate(Aggregation::mean, scores, 1)) : std::nullopt);
  }
  return result;
}

}  // namespace satformer
