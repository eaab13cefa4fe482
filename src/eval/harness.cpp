#include "eval/harness.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/count_of.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/unicode.h"
#include "distributed/agree.h"
#include "eval/answer_log.h"
#include "eval/prompts.h"
#include "eval/python_text.h"

namespace satformer {
namespace {

std::string request_hash(const Sample& sample) {
  std::string all;
  for (const auto& [context, continuation] : sample.arguments) {
    all += concat(context.size(), ":", context, continuation.size(), ":", continuation);
  }
  return sha256_text(all);
}

class Runner {
 public:
  Runner(const TextModel& model, const EvalOptions& options) : model_(model), options_(options) {}

  // Leaves only documents whose requests the model can answer.
  void check(PreparedTask& prepared) const {
    const Task& task = prepared.task;
    if (task.kind == RequestKind::generate && task.generation.max_tokens >= model_.max_length) {
      fail(ExitCode::config, "task ", task.name, " generates up to ", task.generation.max_tokens,
           " tokens, which leave no room for a prompt in the context of ", model_.max_length,
           " (--max-gen-toks sets another number)");
    }
    std::erase_if(prepared.samples, [&](Sample& sample) {
      try {
        sample.truncated = is_truncated(task, sample);
        return false;
      } catch (const Error& error) {
        prepared.bad.push_back({sample.id, error.what()});
        return true;
      }
    });
    if (prepared.samples.empty()) {
      fail(ExitCode::data, "task ", task.name, ": no document can be asked. ", prepared.bad.at(0).reason);
    }
    const auto truncated = std::count_if(prepared.samples.begin(), prepared.samples.end(),
                                         [](const Sample& sample) { return sample.truncated; });
    if (truncated > 0) {
      warn(concat(task.name, ": ", truncated, " of ", prepared.samples.size(),
                  " prompts are longer than the context of ", model_.max_length, " and lose their beginning"));
    }
    for (std::size_t i = 0; i < prepared.bad.size() && i < 5; ++i) {
      warn(concat(task.name, ": document ", prepared.bad[i].id, " is left out: ", prepared.bad[i].reason));
    }
    if (prepared.bad.size() > 5) {
      warn(concat(task.name, ": ", prepared.bad.size() - 5, " more documents are left out"));
    }
  }

  TaskResult run(PreparedTask prepared) {
    task_ = &prepared.task;
    samples_ = &prepared.samples;
    open_log();
    std::set<std::size_t> known;
    hashes_.clear();
    for (std::size_t i = 0; i < prepared.samples.size(); ++i) {
      hashes_.push_back(request_hash(prepared.samples[i]));
      const Response* logged = log_ ? log_->find(prepared.samples[i].id, hashes_.back()) : nullptr;
      if (!logged) continue;
      prepared.samples[i].response = *logged;
      known.insert(i);
    }
    share_responses(known);
    if (!known.empty())
      warn(concat(task_->name, ": ", count_of(known.size(), "document"), " taken from ", log_->path()));
    std::vector<std::size_t> waiting;
    std::size_t number = 0;
    for (std::size_t i = 0; i < prepared.samples.size(); ++i) {
      if (!known.contains(i) && number++ % ranks() == rank()) waiting.push_back(i);
    }
    done_ = known_ = known.size();
    share_ = known_ + waiting.size();
    started_ = std::chrono::steady_clock::now();
    if (!waiting.empty()) {
      if (task_->kind == RequestKind::generate) {
        generate(waiting);
      } else {
        score(waiting);
      }
    }
    std::set<std::size_t> answered(waiting.begin(), waiting.end());
    share_responses(answered);
    TaskResult result;
    if (log_) result.log_paths = log_->paths();
    log_.reset();
    return grade(std::move(prepared), std::move(result));
  }

 private:
  std::size_t ranks() const { return options_.ranks ? static_cast<std::size_t>(options_.ranks->size()) : 1; }
  std::size_t rank() const { return options_.ranks ? static_cast<std::size_t>(options_.ranks->rank()) : 0; }

  // The responses of the samples `own` go to all ranks; `own` becomes those that any rank has.
  void share_responses(std::set<std::size_t>& own) {
    if (ranks() == 1) return;
    Json json = Json::array();
    for (const std::size_t i : own) json.push_back({i, response_json((*samples_)[i].response)});
    for (const std::string& text : texts_of_ranks(*options_.ranks, json.dump())) {
      for (const Json& item : parse_json(text, "answers of a rank")) {
        const auto i = item.at(0).get<std::size_t>();
        (*samples_).at(i).response = response_from_json(item.at(1));
        own.insert(i);
      }
    }
  }

  // Whether a prompt is longer than what the model reads. Throws for what cannot be asked at all.
  bool is_truncated(const Task& task, const Sample& sample) const {
    if (task.kind == RequestKind::generate) {
      const auto tokens = std::ssize(model_.encode(sample.arguments[0].first, model_.add_bos));
      return tokens > model_.max_length - task.generation.max_tokens;
    }
    bool truncated = false;
    for (const LikelihoodRequest& request : likelihood_requests(task, sample)) {
      check_request(request, model_.max_length, model_.model.config().vocab_size);
      // The last token is not read.
      truncated = truncated || std::ssize(request.context) + std::ssize(request.continuation) - 1 > model_.max_length;
    }
    return truncated;
  }

  std::vector<LikelihoodRequest> likelihood_requests(const Task& task, const Sample& sample) const {
    if (task.kind == RequestKind::rolling) {
      const std::int64_t stride = options_.stride > 0 ? options_.stride : model_.max_length;
      auto windows = model_.rolling(sample.arguments[0].first, model_.max_length, stride);
      if (windows.empty()) fail(ExitCode::data, "the text has no token");
      return windows;
    }
    std::vector<LikelihoodRequest> requests;
    for (const auto& [context, continuation] : sample.arguments) {
      requests.push_back(model_.pair(context, continuation));
    }
    return requests;
  }

  void open_log() {
    log_.reset();
    if (options_.log_folder.empty()) return;
    Json settings = options_.log_settings;
    settings["task"] = task_->name;
    settings["version"] = task_->version;
    settings["num_fewshot"] = options_.num_fewshot;
    settings["max_length"] = model_.max_length;
    settings["prefix_token"] = model_.prefix_token;
    settings["add_bos"] = model_.add_bos;
    settings["stride"] = task_->kind == RequestKind::rolling ? options_.stride : 0;
    settings["stop"] = task_->generation.stop;
    settings["max_tokens"] = task_->generation.max_tokens;
    log_.emplace(options_.log_folder, task_->name, settings, static_cast<int>(rank()));
  }

  void answered(std::size_t index, Response response) {
    Sample& sample = (*samples_)[index];
    if (log_) log_->add(sample.id, hashes_[index], response);
    sample.response = std::move(response);
    ++done_;
    if (options_.ranks) {
      options_.ranks->progress();
      options_.ranks->check();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    const double left = seconds / static_cast<double>(done_ - known_) * static_cast<double>(share_ - done_);
    if (options_.progress) {
      options_.progress(concat(task_->name, ": ", done_, "/", share_, " documents",
                               ranks() > 1 ? " of this rank" : "", ", ", human_duration(left), " left"));
    }
  }

  void score(const std::vector<std::size_t>& waiting) {
    std::vector<std::vector<LikelihoodRequest>> groups;
    std::vector<std::int64_t> tokens;
    for (const std::size_t index : waiting) {
      groups.push_back(likelihood_requests(*task_, (*samples_)[index]));
      tokens.push_back(0);
      for (const LikelihoodRequest& r : groups.back())
        tokens.back() += static_cast<std::int64_t>(r.continuation.size());
    }
    LikelihoodOptions options;
    options.batch_size = options_.batch_size;
    options.max_length = model_.max_length;
    options.observer = model_.observer;
    options.done = [&](std::size_t group, std::span<const Likelihood> results) {
      Response response;
      for (const Likelihood& r : results) response.likelihoods.emplace_back(r.sum, r.greedy);
      response.tokens = tokens[group];
      answered(waiting[group], std::move(response));
      return true;
    };
    score_groups(model_.model, groups, options);
  }

  void generate(const std::vector<std::size_t>& waiting) {
    std::vector<GenerationRequest> requests;
    for (const std::size_t index : waiting) {
      GenerationRequest request;
      request.max_new_tokens = task_->generation.max_tokens;
      request.prompt = model_.prompt((*samples_)[index].arguments[0].first, request.max_new_tokens);
      request.stop = task_->generation.stop;
      requests.push_back(std::move(request));
    }
    GenerationOptions options;
    options.batch_size = options_.batch_size;
    options.done = [&](std::size_t request, const std::string& text) {
      Response response;
      response.text = text;
      answered(waiting[request], std::move(response));
      return true;
    };
    generate_texts(model_, requests, options);
  }

  // How far before its end the prompt last holds an accepted answer.
  std::optional<std::int64_t> answer_distance(const Task& task, const Sample& sample) const {
    if (task.kind != RequestKind::generate) return std::nullopt;
    std::vector<std::string> answers = sample.question.answers;
    for (const auto& spans : sample.question.spans) answers.insert(answers.end(), spans.begin(), spans.end());
    const std::string& prompt = sample.arguments[0].first;
    std::optional<std::size_t> last;
    for (const std::string& answer : answers) {
      const auto at = strip(answer).empty() ? std::nullopt : find_last_ignoring_case(prompt, strip(answer));
      if (at && (!last || *at > *last)) last = at;
    }
    if (!last) return std::nullopt;
    return static_cast<std::int64_t>(
        model_.tokenizer.encode_continued(std::string_view(prompt).substr(*last)).size());
  }

  TaskResult grade(PreparedTask prepared, TaskResult result) const {
    const Task& task = prepared.task;
    std::vector<std::vector<Score>> columns(task.metrics.size());
    for (Sample& sample : prepared.samples) {
      Response shown = sample.response;
      if (task.strip_output) shown.text = std::string(strip(shown.text));
      sample.scores = task.grade ? task.grade(sample.question, shown) : grade_by_kind(task, sample.question, shown);
      sample.answer_distance = answer_distance(task, sample);
      for (std::size_t m = 0; m < columns.size(); ++m) columns[m].push_back(sample.scores.at(m));
    }
    for (std::size_t m = 0; m < columns.size(); ++m) {
      const bool any = std::any_of(columns[m].begin(), columns[m].end(), [](const Score& s) { return s.weight > 0; });
      result.metrics.push_back(
          any ? std::optional(aggregate(task.metrics[m].aggregation, columns[m], options_.bootstrap_iters))
              : std::nullopt);
    }
    result.task = task;
    result.documents = prepared.documents;
    result.num_fewshot = options_.num_fewshot;
    result.samples = std::move(prepared.samples);
    result.bad = std::move(prepared.bad);
    std::sort(result.bad.begin(), result.bad.end(),
              [](const BadDocument& a, const BadDocument& b) { return a.id < b.id; });
    return result;
  }

  void warn(const std::string& text) const {
    if (options_.warn) options_.warn(text);
  }

  const TextModel& model_;
  const EvalOptions& options_;
  const Task* task_ = nullptr;
  std::vector<Sample>* samples_ = nullptr;
  std::vector<std::string> hashes_;
  std::optional<AnswerLog> log_;
  std::size_t done_ = 0, known_ = 0, share_ = 0;  // documents: answered, of an earlier run, to answer here and known
  std::chrono::steady_clock::time_point started_;
};

}  // namespace

std::vector<TaskResult> evaluate(const TextModel& model, const std::vector<Task>& tasks, const EvalOptions& options) {
  Runner runner(model, options);
  std::vector<PreparedTask> prepared;
  for (const Task& task : tasks) {
    prepared.push_back(prepare_task(task, options));
    runner.check(prepared.back());
  }
  std::vector<TaskResult> results;
  for (PreparedTask& task : prepared) {
    const std::string name = task.task.name;
    try {
      results.push_back(runner.run(std::move(task)));
    } catch (const Error& error) {
      fail(error.code(), "task ", name, ": ", error.what());
    }
  }
  return results;
}

}  // namespace satformer
