#include "track/run_tracker.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"
#include "track/run_page.h"

namespace satformer {
namespace {

constexpr int refresh_seconds = 15;

// The sessions so far and this one.
std::vector<Json> add_session(const TrackerOptions& options) {
  const std::string path = concat(options.folder, '/', sessions_file);
  std::vector<Json> sessions;
  if (options.step > 0 && std::filesystem::exists(path)) {
    const Json there = Json::parse(read_file(path), nullptr, false);  // a damaged one stops no run
    if (there.is_array()) sessions.assign(there.begin(), there.end());
  }
  sessions.push_back(options.session);
  sessions.back()["from_step"] = options.step;
  write_file_atomic(path, Json(sessions).dump(2) + "\n");
  return sessions;
}

}  // namespace

RunTracker::RunTracker(const TrackerOptions& options)
    : options_(options),
      metrics_(options.folder + "/metrics.jsonl", options.step),
      events_(options.folder, options.step),
      page_due_(std::chrono::steady_clock::now()) {
  run_.path = options.folder;
  run_.config = options.config;
  describe_run_config(run_);
  run_.sessions = add_session(options);
  run_.step = options.step;
  run_.curves = read_curves(options.folder + "/metrics.jsonl", run_.tokens_per_step);
}

void RunTracker::add(std::int64_t step, const Json& values) {
  metrics_.add(step, values);
  ScalarEvent event;
  event.wall_time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  event.step = step;
  for (const auto& [key, value] : values.items()) {
    if (value.is_number()) event.values.emplace_back(key, value.get<float>());
  }
  events_.add(event);
  run_.curves.add(step, values);
  run_.step = step;
  if (std::chrono::steady_clock::now() >= page_due_) write_page(RunState::running, refresh_seconds);
}

void RunTracker::sync() {
  metrics_.sync();
  sync_file(events_.path());
}

void RunTracker::finish(RunState state) {
  finished_ = true;
  write_page(state, 0);
}

RunTracker::~RunTracker() {
  if (finished_) return;
  try {
    write_page(RunState::stopped, 0);
  } catch (const Error&) {  // on the way out of another error, perhaps a full disk
  }
}

void RunTracker::write_page(RunState state, int refresh) {
  run_.state = state;
  write_file_atomic(options_.folder + "/run.html", run_page(run_, refresh));
  page_due_ = std::chrono::steady_clock::now() +
              std::chrono::milliseconds(static_cast<std::int64_t>(1000 * options_.page_interval));
}

}  // namespace satformer
