// The training loop: steps, metrics, validation, samples, checkpoints, until the token budget is spent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/progress.h"
#include "checkpoint/training_state.h"
#include "infer/window_loss.h"
#include "io/tokenizer.h"
#include "nn/model.h"
#include "probe/gate_statistics.h"
#include "track/run_tracker.h"
#include "train/checkpoint_writer.h"
#include "train/frozen.h"
#include "train/guards.h"
#include "train/loader.h"
#include "train/optimizer.h"
#include "train/rank_step.h"
#include "train/run_config.h"
#include "train/run_data.h"
#include "train/schedule.h"

namespace satformer {

struct TrainHooks {
  std::function<bool()> stop;  // asked between micro-batches
  // Every logging.sample_interval steps; the text is shown.
  std::function<std::string(Model& model, std::int64_t step)> on_sample;
  std::function<void(Model& model, std::int64_t step)> on_step;  // before each step's forward; step counts from 0
};

constexpr std::int64_t windows_per_eval_iter = 64;

// What the loop works on; all outlive it.
struct TrainResources {
  const RunSettings* settings = nullptr;
  Model* model = nullptr;
  RunData data;
  std::string train_data_sha256;  // of shards
  const RunFolder* folder = nullptr;
  const Tokenizer* tokenizer = nullptr;  // may be null
  std::string resume_from;               // verified checkpoint; empty: a new run
  TrainingState state;                   // of that checkpoint
  std::int64_t max_steps = 0;            // stop and save after this step; 0: the whole budget
  std::string window_log;
  Json session;                                          // describe_session()
  std::optional<std::int64_t> document_end;              // with data.mask_documents
  double peak_flops = 0;                                 // 0: no MFU
  std::string peak_name;                                 // "measured" or "given"
  std::optional<TimeLimit::Clock::time_point> end_time;  // the run has saved and ended before it
  bool quiet = false;                                    // no progress line
  Communicator* ranks = nullptr;                         // of more than one process, else null. Rank 0 alone writes
};

struct TrainResult {
  std::int64_t step = 0;
  bool stopped = false;  // `stop` answered true, or time is up
  bool out_of_time = false;
  bool complete = false;   // the token budget is spent or the target accuracy reached
  std::string checkpoint;  // newest
  WindowLoss validation;   // full set, if complete
};

OptimizerOptions optimizer_options(const TrainingSection& training);
Schedule schedule_of(const RunConfig& config);

class Trainer {
 public:
  Trainer(const TrainResources& resources, const TrainHooks& hooks);

  // A stop request ends the step in progress without its update, saves and returns. A loss or gradient that is not
  // finite is Error(non_finite) before the update; nothing is saved. Spikes are treated as training.spike says.
  TrainResult run();

 private:
  bool train_step();  // false: stopped within it
  void check_finite(double loss, double norm);
  std::int64_t last_step() const;  // of this run: of the budget, or of max_steps before it
  void report_step(double lr, double norm);
  bool finish_step();  // line of metrics, validation, sample, checkpoint that are due; false: stopped
  void look_for_frozen(Json& values);
  void add_system_figures(Json& values) const;
  void add_gates(Json& values);  // those of the last step
  bool run_validation(std::int64_t max_windows, Json& values);
  void report_accuracy(Json& values, std::string& line);
  bool reached() const;  // the target accuracy
  void skip_spike(double loss, double norm, std::int64_t tokens);
  void rewind_before_spike(double loss, double norm);
  void save();
  void note_saved(const std::optional<CheckpointWriter::Saved>& saved);
  void save_final() const;
  bool stop_requested();  // on any rank: all ask at the same points
  bool writes() const { return !r_.ranks || r_.ranks->rank() == 0; }
  void load();
  void track(std::int64_t step, const Json& values);
  double now() const;

  TrainResources r_;
  TrainHooks hooks_;
  const RunConfig& config_;
  Schedule schedule_;
  std::optional<Optimizer> optimizer_;  // of one process
  std::optional<RankStep> rank_step_;   // of several
  TrainingState state_;
  std::unique_ptr<BatchLoader> loader_;
  std::unique_ptr<RunTracker> tracker_;  // rank 0's
  std::int64_t frozen_interval_ = 0;
  std::optional<FrozenParameters> frozen_;
  std::optional<GateStatistics> gates_;  // of the last step, where they are due
  ProgressLine progress_;
  double flops_per_token_ = 0;
  CheckpointWriter writer_;
  std::int64_t saved_step_ = -1;  // written, or being written
  std::string checkpoint_;        // newest that is complete
  SpikeGuard spikes_;
  TimeLimit time_;
  bool out_of_time_ = false, rewound_ = false;
  Json step_values_ = Json::object();  // for the step's line of metrics, whatever is due
  WindowLoss last_validation_;
  // Since the last line of metrics.
  double last_lr_ = 0, last_norm_ = 0, last_loss_ = 0;
  double busy_seconds_ = 0;
  std::int64_t busy_tokens_ = 0;
  StepClock clock_;
  double rate_ = 0;  // tokens per second, as last reported
};

}  // namespace satformer
