#include "track/run_tracker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_error.h"
#include "io/test_folder.h"
#include "track/run_page.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

Json run_config(int seed) {
  return {{"model", {{"class_name", "SATFormerForCausalLM"}}},
          {"data", {{"seq_length", 8}}},
          {"training", {{"batch_size", 2}, {"gradient_accumulation_steps", 2}, {"max_tokens", 320e-9}}},
          {"system", {{"seed", seed}}}};
}

TrackerOptions options_of(const std::string& folder, std::int64_t step, int seed = 1) {
  make_directories(folder);
  write_file_atomic(folder + "/config.json", run_config(seed).dump());
  return {folder, step, run_config(seed), {{"started", "today"}, {"host", "here"}}, 0};
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(RunTracker, LeavesLinesEventsSessionsAndAPage) {
  const TestFolder folder;
  const std::string run = folder / "run";
  {
    RunTracker tracker(options_of(run, 0));
    for (int step = 1; step <= 5; ++step) {
      tracker.add(step, {{"train/loss", 5.0 / step}, {"train/frozen", Json::array({"<b>"})}});
    }
    const std::string page = read_file(run + "/run.html");
    EXPECT_NE(page.find("http-equiv=\"refresh\""), std::string::npos);
    EXPECT_NE(page.find("running"), std::string::npos);
  }
  // Continued after step 3: what came later is dropped everywhere.
  RunTracker tracker(options_of(run, 3));
  tracker.add(4, {{"train/loss", 7.0}});
  tracker.add(4, {{"val/loss", 8.0}});
  tracker.finish(RunState::stopped);
  const RunInfo info = read_run_info(run);
  EXPECT_EQ(info.architecture, "SATFormer");
  EXPECT_EQ(info.step, 4);
  // A run that was stopped between two logged steps stands where its checkpoint is.
  for (const char* name : {"step-00000007", "step-00000009.partial", "step-x"}) {
    fs::create_directories(concat(run, "/checkpoints/", name));
    write_file_atomic(concat(run, "/checkpoints/", name, "/training.json"), "{}");
  }
  fs::create_directories(run + "/checkpoints/step-00000008");  // not complete
  EXPECT_EQ(read_run_info(run).step, 7);
  EXPECT_EQ(info.total_steps, 10);
  EXPECT_EQ(info.sessions.size(), 2u);
  EXPECT_EQ(info.sessions[1]["from_step"], 3);
  EXPECT_EQ(info.state, RunState::stopped);
  EXPECT_EQ(info.curves.find("train/loss")->values, (std::vector<double>{5, 2.5, 5.0 / 3, 7}));
  EXPECT_EQ(info.curves.last("val/loss"), 8);
  const std::string page = read_file(run + "/run.html");
  EXPECT_EQ(page.find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_NE(page.find("4 of 10 steps (40 %)"), std::string::npos);
  std::size_t event_files = 0, events = 0;
  for (const auto& entry : fs::directory_iterator(run)) {
    if (!entry.path().filename().string().starts_with("events.out.tfevents.")) continue;
    ++event_files;
    events = read_events(entry.path().string()).size();
  }
  EXPECT_EQ(event_files, 1u);
  EXPECT_EQ(events, 5u);
}

TEST(RunTracker, ADamagedSessionsFileStopsNoRun) {
  const TestFolder folder;
  const TrackerOptions options = options_of(folder / "run", 2);
  write_file_atomic(folder / "run/sessions.json", "[{");
  const RunTracker tracker(options);
  EXPECT_EQ(read_run_info(folder / "run").sessions.size(), 1u);
  write_file_atomic(folder / "run/sessions.json", "[{");
  EXPECT_NE(read_run_info(folder / "run").damage.find("sessions.json"), std::string::npos);
}

TEST(FindRuns, TakesRunFoldersAlone) {
  const TestFolder folder;
  for (const char* name : {"a/seed-1", "a/seed-2", "b"}) RunTracker(options_of(folder / name, 0)).add(1, {{"x", 1}});
  make_directories(folder / "c/metrics.jsonl");
  make_directories(folder / ".hidden");
  EXPECT_EQ(find_runs(folder.path()),
            (std::vector<std::string>{folder / "a/seed-1", folder / "a/seed-2", folder / "b"}));
  EXPECT_EQ(find_runs(folder / "b"), std::vector<std::string>{folder / "b"});
  EXPECT_NE(error_text([&] { find_runs(folder / "absent"); }, ExitCode::system).find("no folder"), std::string::npos);
  EXPECT_NE(error_text([&] { read_run_info(folder / "c"); }, ExitCode::system).find("config.json"),
            std::string::npos);
}

TEST(DifferencesTable, ShowsWhatDiffersUnderShortNames) {
  const TestFolder folder;
  std::vector<RunInfo> runs;
  for (const int seed : {1, 2}) {
    const std::string path = folder / concat("x/seed-", seed, "/train");
    RunTracker(options_of(path, 0, seed)).add(1, {{"val/loss", 2.0 * seed}, {"progress/seconds", 1}});
    runs.push_back(read_run_info(path));
  }
  const Table table = differences_table(runs);
  ASSERT_EQ(table.columns.size(), 3u);
  EXPECT_EQ(table.columns[1].name, "seed-1");
  EXPECT_EQ(table.columns[2].name, "seed-2");
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0][0].text, "system.seed");
  EXPECT_EQ(table.rows[1][0].text, "val/loss");
  EXPECT_EQ(table.rows[1][2].value, 4);
  EXPECT_EQ(table.rows[2][0].text, "step");
  const std::string page = compare_page(runs);
  EXPECT_EQ(count(page, "<figure"), 1u);  // the chart of losses
}

TEST(Curves, CountTokensAndKeepTheSeconds) {
  const TestFolder folder;
  const std::string path = folder / "metrics.jsonl";
  write_file_atomic(path,
                    "{\"progress/step\":10,\"train/loss\":3.5,\"progress/seconds\":1.5}\n"
                    "{\"progress/step\":20,\"val/loss\":3.0,\"train/frozen\":[\"x\"]}\n"
                    "{\"progress/step\":30,\"val/lo");
  const Curves curves = read_curves(path, 100);
  EXPECT_EQ(curves.find("val/loss")->steps, std::vector<double>{20});
  EXPECT_EQ(curves.find("val/loss")->tokens, std::vector<double>{2000});
  EXPECT_EQ(curves.find("val/loss")->seconds, std::vector<double>{1.5});
  EXPECT_EQ(curves.find("train/loss")->values, std::vector<double>{3.5});
  EXPECT_EQ(curves.find("train/frozen"), nullptr);
  write_file_atomic(path, "{\"train/loss\":3.5}\n");
  EXPECT_NE(error_text([&] { read_curves(path, 1); }, ExitCode::data).find("progress/step"), std::string::npos);
  write_file_atomic(path, "{\"train/lo\n");
  EXPECT_THROW(read_curves(path, 1), Error);
}

}  // namespace
}  // namespace satformer
