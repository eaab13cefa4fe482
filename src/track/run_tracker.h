// Everything that a training run leaves for those who watch it: metrics.jsonl, TensorBoard's event file, the sessions
// it ran in, and run.html.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "track/event_file.h"
#include "track/metrics_log.h"
#include "track/run_info.h"

namespace satformer {

struct TrackerOptions {
  std::string folder;         // the run's; exists
  std::int64_t step = 0;      // continue after it; 0: a new run
  Json config;                // resolved
  Json session;               // describe_session()
  double page_interval = 20;  // least seconds between two versions of run.html
};

class RunTracker {
 public:
  explicit RunTracker(const TrackerOptions& options);
  ~RunTracker();  // without finish(): the page says that the run has stopped
  RunTracker(const RunTracker&) = delete;
  RunTracker& operator=(const RunTracker&) = delete;
  // Adds `values` to the step's line; numbers reach the event file too. Steps never go back.
  void add(std::int64_t step, const Json& values);
  void sync();                  // metrics.jsonl and the event file are on disk
  void finish(RunState state);  // writes run.html once more, which then stays as it is
 private:
  void write_page(RunState state, int refresh);

  TrackerOptions options_;
  MetricsLog metrics_;
  EventLog events_;
  RunInfo run_;
  bool finished_ = false;
  std::chrono::steady_clock::time_point page_due_;
};

}  // namespace satformer
