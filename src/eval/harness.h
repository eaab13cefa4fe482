// Runs tasks: reads documents, builds prompts with few-shot examples, asks the model in batches, keeps what is done
// in a log that a later run goes on from, and grades.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "eval/grade.h"
#include "eval/task.h"
#include "infer/text_model.h"

namespace satformer {

struct EvalOptions {
  std::string data_dir;
  std::int64_t limit = 0;        // the first n documents of each task; 0: all
  std::int64_t num_fewshot = 0;  // examples before each document
  std::uint64_t fewshot_seed = 1234;
  std::int64_t batch_size = 16;                           // rows computed at once
  std::int64_t stride = 0;                                // rolling: new tokens a window; 0: disjoint windows
  std::int64_t max_gen_toks = 0;                          // generate: instead of each task's own; 0: the task's
  std::int64_t bootstrap_iters = 100000;                  // 0: no standard errors
  std::string log_folder;                                 // where unfinished work is kept; "": nowhere
  Json log_settings;                                      // answers are taken from a log only if these are the same
  std::function<void(const std::string& text)> progress;  // one line, replaced by the next
  std::function<void(const std::string& text)> warn;      // a line to keep
  Communicator* ranks = nullptr;                          // those that share the documents; null: this process alone
};

struct Sample {
  std::int64_t id = 0;
  Question question;
  std::vector<std::pair<std::string, std::string>> arguments;  // context and continuation; rolling and generate: text
  Response response;
  Scores scores;
  bool truncated = false;                       // the prompt is too long and loses its beginning
  std::optional<std::int64_t> answer_distance;  // tokens from an answer in the prompt to the prompt's end
};

struct BadDocument {
  std::int64_t id = 0;
  std::string reason;
};

struct TaskResult {
  Task task;
  std::int64_t documents = 0;  // in the files
  std::int64_t num_fewshot = 0;
  std::vector<Sample> samples;  // graded, by id
  std::vector<BadDocument> bad;
  std::vector<std::optional<Aggregate>> metrics;  // as Task::metrics; nothing where no document has the metric
  Json settings;                                  // of generated tasks: what makes their examples; null otherwise
  std::vector<std::string> log_paths;             // to be removed once the result is kept
};

// Everything that can be told without the model is told before it runs: Error(data) naming task and file where files
// or columns are missing or no document can be asked; Error(config) where generated text does not fit the context.
// Single documents that cannot be asked are reported, counted and left out. Ranks that share the work have the same
// model, files and options but for the functions, and all get the whole result.
std::vector<TaskResult> evaluate(const TextModel& model, const std::vector<Task>& tasks, const EvalOptions& options);

}  // namespace satformer
