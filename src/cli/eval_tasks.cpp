#include "cli/eval_tasks.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "base/count_of.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/rank_session.h"
#include "cli/synthetic_tasks.h"
#include "cli/text_options.h"
#include "data/synthetic/task.h"
#include "distributed/ranks.h"
#include "eval/compare.h"
#include "eval/results.h"
#include "eval/tasks/list.h"
#include "eval/tasks/text_files.h"
#include "io/file.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

// Whether one of `options` is among the arguments, with or without "=VALUE".
bool names(std::span<const std::string> arguments, std::initializer_list<std::string_view> options) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const std::string& argument) {
    const std::string_view name = std::string_view(argument).substr(0, argument.find('='));
    return std::find(options.begin(), options.end(), name) != options.end();
  });
}

void list_tasks() {
  for (const Task& task : builtin_tasks()) {
    const std::string version = task.version.is_string() ? task.version.get<std::string>() : task.version.dump();
    std::printf("%-26s %-10s %-22s %s\n", task.name.c_str(), version.c_str(), output_type(task.kind).c_str(),
                task.summary.c_str());
  }
  for (const SyntheticTask& task : synthetic_tasks()) {
    std::printf("%-26s %-10s %-22s %s\n", task.name.c_str(), "1", "generated", task.summary.c_str());
  }
  std::printf("\nGroups:\n");
  for (const TaskGroup& group : task_groups()) {
    std::string members;
    for (const std::string& task : group.tasks) members += (members.empty() ? "" : ",") + task;
    std::printf("%-26s %s\n", group.name.c_str(), members.c_str());
  }
}

struct Arguments {
  TextOptions text_options;
  std::vector<std::string> tasks, texts, compare;
  std::vector<std::string> generated;  // those of the tasks that are
  double timeout = default_rank_timeout;
  std::string data_dir, output, column = "text";
  std::int64_t num_fewshot = 0, limit = 0, seed = 1234, stride = 0, max_gen_toks = 0, bootstrap = 100000;
  bool log_samples = false, list = false, each = false;
};

void check(const Arguments& a) {
  a.text_options.check();
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) fail(ExitCode::usage, name, " ", value, " must be at least ", least);
  };
  at_least("--num-fewshot", a.num_fewshot, 0);
  at_least("--limit", a.limit, 0);
  at_least("--fewshot-seed", a.seed, 0);
  at_least("--stride", a.stride, 0);
  at_least("--max-gen-toks", a.max_gen_toks, 0);
  at_least("--bootstrap-iters", a.bootstrap, 0);
  if (a.bootstrap > 10'000'000) fail(ExitCode::usage, "--bootstrap-iters ", a.bootstrap, " must be at most 10000000");
  if (a.tasks.empty() && a.texts.empty()) fail(ExitCode::usage, "satformer eval: --tasks or --text is required");
}

// What says that a weights file is another one, without reading it.
Json fingerprint(const LoadedText& model) {
  const fs::path weights = fs::path(model.loaded.directory) / "model.safetensors";
  std::error_code error;
  Json json = {{"model", model.loaded.directory}, {"tokenizer", model.tokenizer->sha256()}};
  json["size"] = static_cast<std::int64_t>(fs::file_size(weights, error));
  json["written"] = static_cast<std::int64_t>(fs::last_write_time(weights, error).time_since_epoch().count());
  return json;
}

Json edit_json(const Arguments& a) {
  const EditOptions& e = a.text_options.edit;
  Json json = {{"edit", e.edit}};
  if (!e.data_dir.empty()) json.update({{"data", e.data_dir}, {"windows", e.windows}});
  return json;
}

Json config_json(const Arguments& a, const LoadedText& model) {
  const ModelOptions& m = a.text_options.model;
  Json config = {{"model", "satformer"},
                 {"model_args", "pretrained=" + m.model},
                 {"architecture", model.loaded.model->architecture()},
                 {"model_num_parameters", model.loaded.model->parameters().count()},
                 {"model_dtype", m.dtype},
                 {"tokenizer", model.tokenizer ? Json(model.tokenizer->name()) : Json(nullptr)},
                 {"tokenizer_sha256", model.tokenizer ? Json(model.tokenizer->sha256()) : Json(nullptr)},
                 {"batch_size", a.text_options.batch_size},
                 {"device", m.device},
                 {"limit", a.limit > 0 ? Json(a.limit) : Json(nullptr)},
                 {"bootstrap_iters", a.bootstrap},
                 {"stride", a.stride},
                 {"gen_kwargs", a.max_gen_toks > 0 ? Json{{"max_gen_toks", a.max_gen_toks}} : Json(nullptr)},
                 {"fewshot_seed", a.seed}};
  if (model.edits) config["edit"] = edit_json(a);
  if (model.text) {
    config["add_bos_token"] = model.text->add_bos;
    config["prefix_token_id"] = model.text->prefix_token;
  }
  return config;
}

// All ranks must be at the same evaluation, or answers of one would stand for another's.
void share_evaluation(const Arguments& a, const TaskSelection& selection, const EvaluationInfo& info,
                      Communicator& ranks) {
  Json json = {{"config", info.config}, {"tasks", a.generated}, {"num_fewshot", a.num_fewshot}};
  for (const Task& task : selection.tasks) json["tasks"].push_back(task.name);
  const std::string own = json.dump(), of_first = ranks.broadcast_text(own, 0);
  if (own != of_first) {
    fail(ExitCode::config, "the ranks are not of one evaluation: ", own, " here and ", of_first, " on rank 0");
  }
}

// The ranks answer for parts of the same documents, and rank 0 alone reports.
int evaluate_tasks(const Arguments& a, const TaskSelection& selection, const std::vector<std::string>& overrides,
                   Communicator& ranks) {
  const bool first = ranks.rank() == 0, with_text = !selection.tasks.empty();
  TextOptions own = a.text_options;
  own.model = own.model.of_rank(ranks);
  const LoadedText model = with_text ? load_text_model(own) : load_plain_model(own);
  const std::vector<SyntheticOptions> synthetic = synthetic_options(a.generated, model.loaded, overrides);
  if (with_text && a.stride > model.text->max_length) {
    fail(ExitCode::usage, "--stride ", a.stride, " is longer than the context of ", model.text->max_length);
  }
  EvaluationInfo info;
  info.model_name = a.text_options.model.model;
  info.config = config_json(a, model);
  info.max_length = with_text ? model.text->max_length : model.loaded.model->config().max_position_embeddings;
  info.eot_token = model.tokenizer ? model.tokenizer->eos_id() : model.loaded.model->config().eos_token_id;
  const auto seconds = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  info.start_time = seconds();

  share_evaluation(a, selection, info, ranks);
  ProgressLine progress;
  EvalOptions eval;
  eval.ranks = &ranks;
  eval.data_dir = a.data_dir;
  eval.limit = a.limit;
  eval.num_fewshot = a.num_fewshot;
  eval.fewshot_seed = static_cast<std::uint64_t>(a.seed);
  eval.batch_size = a.text_options.batch_size;
  eval.stride = a.stride;
  eval.max_gen_toks = a.max_gen_toks;
  eval.bootstrap_iters = first ? a.bootstrap : 0;
  if (first) {
    eval.progress = [&](const std::string& text) { progress.update("eval: " + text); };
    eval.warn = [&](const std::string& text) { progress.print("eval: " + text); };
  }
  if (!a.output.empty() && with_text) {
    eval.log_folder = results_folder(a.output, info.model_name);
    make_directories(eval.log_folder);
    eval.log_settings = fingerprint(model);
    if (model.edits) eval.log_settings["edit"] = edit_json(a);
    eval.log_settings["dtype"] = a.text_options.model.dtype;
    eval.log_settings["fewshot_seed"] = a.seed;
  }
  std::vector<TaskResult> results;
  if (with_text) results = evaluate(*model.text, selection.tasks, eval);
  SyntheticEval generated{
      .model = *model.loaded.model, .tokenizer = model.tokenizer.get(), .progress = eval.progress};
  generated.ranks = &ranks;
  generated.limit = a.limit;
  generated.batch_size = a.text_options.batch_size;
  generated.observer = model.edits ? model.edits->observer() : nullptr;
  generated.document_end = trained_document_end(model.loaded);
  for (const SyntheticOptions& task : synthetic) results.push_back(evaluate_synthetic(task, generated));
  if (!first) {
    ranks.barrier();  // the result is kept
    std::error_code ignored;
    for (const TaskResult& r : results) {
      for (const std::string& path : r.log_paths) fs::remove(path, ignored);
    }
    return 0;
  }
  info.seconds = seconds() - info.start_time;
  progress.finish(concat("eval: ", count_of(results.size(), "task"), " done in ", human_duration(info.seconds)));

  const Json json = results_json(results, selection.groups, info);
  std::printf("%s", results_table(json).c_str());
  std::int64_t left_out = 0;
  for (const TaskResult& r : results) left_out += static_cast<std::int64_t>(r.bad.size());
  if (left_out > 0) std::printf("\n%lld documents were left out, see above\n", static_cast<long long>(left_out));
  if (!a.output.empty()) {
    const std::string path = write_results(a.output, results, json, info, a.log_samples);
    std::printf("\nresults in %s\n", path.c_str());
  }
  ranks.barrier();
  return 0;
}

}  // namespace

bool asks_for_tasks(std::span<const std::string> arguments) {
  return names(arguments, {"--tasks", "-t", "--text", "--compare", "--list-tasks", "--list_tasks"});
}

int run_eval_tasks(std::span<const std::string> arguments) {
  Arguments a;
  Options options("eval --tasks",
                  "Scores a model on tasks (--tasks) or on text (--text), or compares two evaluations (--compare). "
                  "Loss on token shards: 'satformer eval --help' without --tasks.");
  const bool without_model = names(arguments, {"--list-tasks", "--list_tasks", "--compare"});
  if (!without_model) a.text_options.add_to(options);
  options
      .add("--timeout", a.timeout,
           "With several ranks: seconds until one that is stopped, stuck or missing is given up")
      .add("--tasks,-t", a.tasks, "Names of tasks or groups, JSON files of your own tasks; several with commas")
      .add("--data-dir,-d", a.data_dir, "Folder of the tasks' files (docs/tasks.md)")
      .add("--text", a.texts, "Text or JSON lines files, folders or globs: perplexity per token, byte and word")
      .add("--column", a.column, "--text: the column of JSON lines")
      .flag("--each", a.each, "--text: a result for each file")
      .add("--stride", a.stride, "New tokens of a window of text; more context, more work (0: disjoint windows)")
      .add("--num-fewshot,-f", a.num_fewshot, "Examples before each document")
      .add("--fewshot-seed", a.seed, "Draws the examples")
      .add("--limit", a.limit, "The first N documents of each task (0: all)")
      .add("--max-gen-toks", a.max_gen_toks, "Longest generated answer (0: the task's own)")
      .add("--bootstrap-iters", a.bootstrap, "Resamples for perplexity's standard error (0: no standard errors)")
      .add("--output,-o,--output-path", a.output, "Folder (or NAME.json) of the results; a stopped run goes on there")
      .flag("--log-samples,-s", a.log_samples, "Write what was asked and answered for each document")
      .needs("--log-samples", "--output")
      .needs("--column", "--text")
      .needs("--each", "--text")
      .allow_overrides("synthetic")
      .add("--compare", a.compare, "Two samples or results files: paired differences with intervals")
      .flag("--list-tasks", a.list, "List the tasks");
  const bool help = names(arguments, {"--help", "-h"});
  const std::vector<std::string> only_help = {"--help"};
  if (!options.parse(help ? std::span<const std::string>(only_help) : arguments)) return 0;
  if (a.list) {
    list_tasks();
    return 0;
  }
  if (!a.compare.empty()) {
    if (a.compare.size() != 2) fail(ExitCode::usage, "--compare takes two files, not ", a.compare.size());
    if (!a.tasks.empty() || !a.texts.empty() || !a.data_dir.empty() || !a.output.empty() || a.limit != 0) {
      fail(ExitCode::usage, "--compare reads two files and evaluates nothing: it goes without other options");
    }
    std::printf("%s", comparison_table(compare_samples(a.compare[0], a.compare[1])).c_str());
    return 0;
  }
  check(a);
  a.generated = take_synthetic_tasks(a.tasks);
  if (!options.overrides().empty() && a.generated.empty()) {
    fail(ExitCode::usage, "--", options.overrides()[0], " is for generated tasks, none of which is named");
  }

  TaskSelection selection;
  if (!a.tasks.empty()) selection = select_tasks(a.tasks);
  if (!a.texts.empty()) {
    for (Task& task : text_tasks(a.texts, a.column, a.each)) selection.tasks.push_back(std::move(task));
  }
  const auto any_of_kind = [&](RequestKind kind) {
    return std::any_of(selection.tasks.begin(), selection.tasks.end(),
                       [&](const Task& task) { return task.kind == kind; });
  };
  if (a.stride > 0 && !any_of_kind(RequestKind::rolling))
    fail(ExitCode::usage, "--stride is for text (--text), which is not asked for");
  if (a.max_gen_toks > 0 && !any_of_kind(RequestKind::generate)) {
    fail(ExitCode::usage, "--max-gen-toks is for tasks that generate text, none of which is named");
  }
  if (!a.data_dir.empty() && a.tasks.empty()) {
    fail(ExitCode::usage, "--data-dir is for the files of --tasks, which are not given");
  }
  const bool with_text = !selection.tasks.empty();
  if (!with_text && (a.num_fewshot > 0 || !a.data_dir.empty())) {
    fail(ExitCode::usage, a.num_fewshot > 0 ? "--num-fewshot" : "--data-dir",
         " has no effect on generated tasks, and no other one is named");
  }
  RankSession session(a.timeout);
  return session.run([&](Communicator& ranks) { return evaluate_tasks(a, selection, options.overrides(), ranks); });
}

}  // namespace satformer::cli
