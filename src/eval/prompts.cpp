#include "eval/prompts.h"

#include <algorithm>

#include "base/count_of.h"
#include "base/error.h"
#include "eval/python_random.h"

namespace satformer {
namespace {

std::vector<std::string> split_names(const std::string& split) {
  if (split == "validation") return {"validation", "val", "valid", "dev"};
  return {split};
}

// Draws the examples of one document after another, as lm-eval's default sampler does.
class ExampleSampler {
 public:
  ExampleSampler(const Task& task, const EvalOptions& options)
      : task_(task), count_(static_cast<std::size_t>(options.num_fewshot)), random_(options.fewshot_seed) {
    if (count_ == 0) return;
    if (task.kind == RequestKind::rolling) {
      fail(ExitCode::usage, "task ", task.name, ": --num-fewshot has no meaning for the loss on a text");
    }
    rows_ = task.make_rows ? task.make_rows(0) : read_rows(task_files(task, options.data_dir, true));
    std::erase_if(rows_, [](const Row& row) { return !row.error.empty(); });
    const std::size_t needed = count_ + (task.exclude_document ? 1 : 0);
    if (rows_.size() < needed) {
      fail(ExitCode::data, "task ", task.name, ": ", count_of(count_, "example"), " drawn from ",
           count_of(rows_.size(), "document"), ", which must be at least ", needed);
    }
  }

  // Text before the document's own; empty without examples. Error(data) where a drawn row cannot be asked.
  std::string text_before(const Row& document) {
    std::string text;
    for (const std::size_t index : draw(document)) {
      const Question q = task_.ask(rows_[index]);
      text += q.text + task_.delimiter + q.example + task_.example_delimiter;
    }
    return text;
  }

 private:
  std::vector<std::size_t> draw(const Row& document) {
    if (count_ == 0) return {};
    if (!task_.exclude_document) return random_.sample(rows_.size(), count_);
    const auto is_document = [&](std::size_t i) { return rows_[i].columns == document.columns; };
    std::vector<std::size_t> drawn = random_.sample(rows_.size(), count_ + 1);
    std::erase_if(drawn, is_document);
    if (drawn.size() < count_) {
      std::vector<std::size_t> pool;
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        if (!is_document(i)) pool.push_back(i);
      }
      if (pool.size() < count_) {
        fail(ExitCode::data, "task ", task_.name,
             ": examples of another document than the one asked: ", count_of(pool.size(), "document"),
             ", expected at least ", count_);
      }
      drawn.clear();
      for (const std::size_t i : random_.sample(pool.size(), count_)) drawn.push_back(pool[i]);
    }
    drawn.resize(count_);
    return drawn;
  }

  const Task& task_;
  std::size_t count_;
  PythonRandom random_;
  std::vector<Row> rows_;
};

void build_arguments(const Task& task, const std::string& before, Sample& sample) {
  const Question& q = sample.question;
  const std::string context = task.description + before + q.text;
  switch (task.kind) {
    case RequestKind::choice:
      for (const std::string& own : q.contexts) {
        sample.arguments.emplace_back(task.description + before + own, task.delimiter + q.choices.at(0));
      }
      if (q.contexts.empty()) {
        for (const std::string& choice : q.choices) sample.arguments.emplace_back(context, task.delimiter + choice);
      }
      break;
    case RequestKind::likelihood:
      sample.arguments.emplace_back(context, q.choices.at(0));
      break;
    case RequestKind::rolling:
      sample.arguments.emplace_back(q.choices.at(0), "");
      break;
    case RequestKind::generate:
      sample.arguments.emplace_back(context, "");
      break;
  }
}

}  // namespace

std::vector<std::string> task_files(const Task& task, const std::string& data_dir, bool examples) {
  const std::vector<std::string>& given = examples ? task.example_files : task.files;
  if (!given.empty()) return given;
  if (data_dir.empty()) fail(ExitCode::usage, "task ", task.name, " reads its documents from --data-dir");
  const std::string& split = examples ? task.example_split : task.split;
  const auto found = find_table(data_dir, task.names, split_names(split), split == task.split);
  if (found.empty()) {
    fail(ExitCode::data, "task ", task.name, ": ", data_dir, " has neither ", task.names[0], "_", split,
         ".jsonl nor ", task.names[0], "/", split, ".jsonl",
         split == task.split ? concat(" nor ", task.names[0], ".jsonl") : "",
         examples ? " (the few-shot examples)" : "");
  }
  return found;
}

PreparedTask prepare_task(const Task& task, const EvalOptions& options) {
  PreparedTask result;
  result.task = task;
  if (options.max_gen_toks > 0 && task.kind == RequestKind::generate) {
    result.task.generation.max_tokens = options.max_gen_toks;
    result.task.generation.logged["max_gen_toks"] = options.max_gen_toks;
  }
  const std::vector<Row> rows =
      task.make_rows ? task.make_rows(options.limit) : read_rows(task_files(task, options.data_dir, false));
  result.documents = static_cast<std::int64_t>(rows.size());
  const std::size_t count =
      options.limit > 0 ? std::min(rows.size(), static_cast<std::size_t>(options.limit)) : rows.size();
  ExampleSampler sampler(task, options);
  for (std::size_t i = 0; i < count; ++i) {
    Sample sample;
    sample.id = static_cast<std::int64_t>(i);
    try {
      if (!rows[i].error.empty()) fail(ExitCode::data, rows[i].error);
      const std::string before = sampler.text_before(rows[i]);
      sample.question = task.ask(rows[i]);
      build_arguments(task, before, sample);
      result.samples.push_back(std::move(sample));
    } catch (const Error& error) {
      if (error.code() != ExitCode::data) throw;
      result.bad.push_back({sample.id, error.what()});
    } catch (const Json::exception& error) {
      result.bad.push_back({sample.id, concat(rows[i].origin, ": not of the task's layout: ", error.what())});
    }
  }
  return result;
}

}  // namespace satformer
