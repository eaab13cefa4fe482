// What is known of a training run from its folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "track/curves.h"

namespace satformer {

enum class RunState { running, complete, stopped };
std::string run_state_name(RunState state);

struct RunInfo {
  std::string path, architecture;
  std::int64_t seed = 0;
  std::int64_t tokens_per_step = 1, total_steps = 0;
  std::int64_t step = 0;  // of the last line of metrics or the newest checkpoint
  RunState state = RunState::stopped;
  Json config;
  std::vector<Json> sessions;  // of describe_session(), one for each start; none for runs of older versions
  std::string damage;          // of sessions.json, which is then left out; empty: none
  Curves curves{1};
};

// Whether a folder holds a training run: metrics.jsonl and config.json.
bool is_run_folder(const std::string& path);
// Runs in `path` and the folders below it, in order. Error(system) if there is no such folder.
std::vector<std::string> find_runs(const std::string& path);
// Error(system) where `path` is no run folder, Error(data) where its files are damaged.
RunInfo read_run_info(const std::string& path);

// Fills in architecture, seed and steps from run.config.
void describe_run_config(RunInfo& run);

// Steps of a training budget, from a resolved run configuration.
std::int64_t tokens_per_step_of(const Json& config);
std::int64_t total_steps_of(const Json& config);

// Program and library versions, host, processor, cores, command line and the state of the git repository that the
// working folder is in (null outside of one).
Json describe_session(const Json& versions, const std::vector<std::string>& arguments);
inline constexpr const char* sessions_file = "sessions.json";  // in a run folder: a list of them

}  // namespace satformer
