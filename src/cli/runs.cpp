// satformer runs: lists, shows and compares training runs.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "io/file.h"
#include "track/run_page.h"

namespace satformer::cli {
namespace {

std::vector<RunInfo> read_runs(const std::vector<std::string>& paths) {
  std::vector<RunInfo> runs;
  for (const std::string& path : paths) {
    for (const std::string& folder : find_runs(path)) {
      try {
        runs.push_back(read_run_info(folder));
      } catch (const Error& error) {
        std::fprintf(stderr, "satformer: left out: %s\n", error.what());
      }
    }
  }
  return runs;
}

int list(const std::vector<std::string>& paths) {
  const std::vector<RunInfo> runs = read_runs(paths.empty() ? std::vector<std::string>{"."} : paths);
  if (runs.empty()) fail(ExitCode::data, "no training run in '", paths.empty() ? "." : paths.front(), "'");
  std::printf("%s", table_text(runs_table(runs)).c_str());
  return 0;
}

void print_run(const RunInfo& run) {
  if (!run.damage.empty()) std::fprintf(stderr, "satformer: left out: %s\n", run.damage.c_str());
  std::printf("%s", table_text(runs_table({run})).c_str());
  std::printf("\n");
  for (const Json& session : run.sessions) {
    const Json git = session.value("git", Json());
    std::printf("started %s on %s at step %lld%s\n", session.value("started", std::string()).c_str(),
                session.value("host", std::string()).c_str(),
                static_cast<long long>(session.value("from_step", std::int64_t{0})),
                git.is_object() ? concat(", git ", git.value("commit", std::string()).substr(0, 12),
                                         git.value("changed", false) ? " with changes" : "")
                                      .c_str()
                                : "");
  }
  Table table;
  table.columns = {{"metric"}, {"last", true}, {"at step", true}};
  for (const auto& [key, curve] : run.curves.all()) {
    if (key != "progress/step") table.rows.push_back({key, curve.values.back(), curve.steps.back()});
  }
  std::printf("\n%s", table_text(table).c_str());
}

}  // namespace

int run_runs(std::span<const std::string> arguments) {
  std::vector<std::string> words;
  std::string html;
  Options options(
      "runs",
      "ls [FOLDER...]: the training runs in folders and below. show RUN: where it stands, last values, its "
      "sessions. compare RUN RUN...: settings and values in which runs differ.");
  options.add("action", words, "ls, show or compare, and what it acts on", true)
      .add("--html", html, "show, compare: write a page with the curves to this file");
  if (!options.parse(arguments)) return 0;
  const std::string action = words.front();
  words.erase(words.begin());
  const std::vector<std::string> known = {"ls", "show", "compare"};
  if (action == "ls") {
    if (!html.empty()) fail(ExitCode::usage, "runs ls: --html belongs to show and compare");
    return list(words);
  }
  if (action == "show") {
    if (words.size() != 1) fail(ExitCode::usage, "runs show: expected one run folder, not ", words.size());
    const RunInfo run = read_run_info(words.front());
    print_run(run);
    if (!html.empty()) write_file_atomic(html, run_page(run, 0));
    return 0;
  }
  if (action == "compare") {
    std::vector<RunInfo> runs = read_runs(words);
    if (runs.size() < 2) fail(ExitCode::usage, "runs compare: expected at least two runs, found ", runs.size());
    std::printf("%s", table_text(differences_table(runs)).c_str());
    if (!html.empty()) write_file_atomic(html, compare_page(runs));
    return 0;
  }
  fail(ExitCode::usage, "runs '", action, "' is not one of: ls, show, compare.", did_you_mean(action, known));
}

}  // namespace satformer::cli
