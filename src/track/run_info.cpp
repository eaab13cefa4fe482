#include "track/run_info.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

double number_at(const Json& config, const char* section, const char* key, double otherwise) {
  const auto part = config.find(section);
  if (part == config.end() || !part->is_object()) return otherwise;
  const auto it = part->find(key);
  return it != part->end() && it->is_number() ? it->get<double>() : otherwise;
}

// A process that trains in a folder holds a lock in it.
bool is_locked(const std::string& path) {
  const int descriptor = ::open((path + "/.lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  ::close(descriptor);
  return locked;
}

// The step of the newest checkpoint, which may be one that was not logged; 0: none.
std::int64_t newest_checkpoint(const std::string& path) {
  std::int64_t newest = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path + "/checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("step-") || !fs::exists(entry.path() / "training.json")) continue;
    std::int64_t step = 0;
    const auto [end, bad] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (bad == std::errc() && end == name.data() + name.size()) newest = std::max(newest, step);
  }
  return newest;
}

// First line of a command's output; empty if it fails.
std::string output_of(const char* command) {
  std::FILE* pipe = ::popen(command, "r");
  if (!pipe) return {};
  char line[256] = "";
  const bool any = std::fgets(line, sizeof line, pipe) != nullptr;
  const int status = ::pclose(pipe);
  if (!any || status != 0) return {};
  std::string text = line;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(std::min(line.find(':') + 2, line.size()));
  }
  return "unknown";
}

}  // namespace

std::string run_state_name(RunState state) {
  return state == RunState::running ? "running" : state == RunState::complete ? "complete" : "stopped";
}

std::int64_t tokens_per_step_of(const Json& config) {
  const double tokens = number_at(config, "training", "batch_size", 1) *
                        number_at(config, "training", "gradient_accumulation_steps", 1) *
                        number_at(config, "data", "seq_length", 1);
  return std::max<std::int64_t>(1, std::llround(tokens));
}

std::int64_t total_steps_of(const Json& config) {
  return std::llround(number_at(config, "training", "max_tokens", 0) * 1e9) / tokens_per_step_of(config);
}

bool is_run_folder(const std::string& path) {
  return fs::exists(path + "/metrics.jsonl") && fs::exists(path + "/config.json");
}

std::vector<std::string> find_runs(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) fail(ExitCode::system, "cannot list runs in '", path, "': it is no folder");
  std::vector<std::string> found;
  if (is_run_folder(path)) found.push_back(path);
  fs::recursive_directory_iterator it(path, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && it != end; it.increment(error)) {
    if (!it->is_directory(error)) continue;
    const std::string name = it->path().filename().string();
    if (name.starts_with(".") || it.depth() > 8) it.disable_recursion_pending();
    if (!is_run_folder(it->path().string())) continue;
    found.push_back(it->path().string());
    it.disable_recursion_pending();
  }
  std::sort(found.begin(), found.end());
  return found;
}

void describe_run_config(RunInfo& run) {
  const Json model = run.config.value("model", Json::object());
  run.architecture = model.is_object() ? model.value("class_name", std::string()) : std::string();
  if (const auto at = run.architecture.find("ForCausalLM"); at != std::string::npos) run.architecture.erase(at);
  run.seed = std::llround(number_at(run.config, "system", "seed", 0));
  run.tokens_per_step = tokens_per_step_of(run.config);
  run.total_steps = total_steps_of(run.config);
}

RunInfo read_run_info(const std::string& path) {
  if (!is_run_folder(path)) {
    fail(ExitCode::system, "'", path, "' is no run folder: it has no ",
         fs::exists(path + "/metrics.jsonl") ? "config.json" : "metrics.jsonl");
  }
  RunInfo run;
  run.path = path;
  run.config = read_json_file(path + "/config.json", ExitCode::data);
  if (!run.config.is_object()) fail(ExitCode::data, path, "/config.json: not a run's configuration");
  if (const std::string sessions = concat(path, '/', sessions_file); fs::exists(sessions)) {
    try {
      for (const Json& session : read_json_file(sessions, ExitCode::data)) {
        if (session.is_object()) run.sessions.push_back(session);
      }
    } catch (const Error& error) {
      run.damage = error.what();
    }
  }
  describe_run_config(run);
  run.curves = read_curves(path + "/metrics.jsonl", run.tokens_per_step);
  for (const auto& [key, curve] : run.curves.all()) {
    run.step = std::max(run.step, static_cast<std::int64_t>(curve.steps.back()));
  }
  run.step = std::max(run.step, newest_checkpoint(path));
  const bool ended = fs::exists(path + "/final/training.json");
  run.state = is_locked(path) ? RunState::running : ended ? RunState::complete : RunState::stopped;
  return run;
}

Json describe_session(const Json& versions, const std::vector<std::string>& arguments) {
  char host[256] = "unknown";
  ::gethostname(host, sizeof host - 1);
  char time[32] = "";
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
  Json json = {{"started", time},
               {"host", host},
               {"processor", processor()},
               {"cores", std::thread::hardware_concurrency()},
               {"versions", versions},
               {"arguments", arguments},
               {"git", nullptr}};
  if (const std::string commit = output_of("git rev-parse HEAD 2>/dev/null"); !commit.empty()) {
    json["git"] = {{"commit", commit}, {"changed", !output_of("git status --porcelain 2>/dev/null").empty()}};
  }
  return json;
}

}  // namespace satformer
