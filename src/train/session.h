// From settings to a running trainer: opens and checks data, run folder, tokenizer and checkpoint before any long
// work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "distributed/communicator.h"
#include "io/tokenizer.h"
#include "train/run_config.h"
#include "train/trainer.h"

namespace satformer {

struct TrainRequest {
  std::string resume;                                    // empty, "auto" or the path of a checkpoint or run folder
  bool overwrite = false;                                // replace the checkpoints of another run in the folder
  std::int64_t max_steps = 0;                            // 0: the whole token budget
  std::string window_log;                                // see LoaderOptions
  double peak_tflops = 0;                                // for MFU; 0: measured
  std::optional<TimeLimit::Clock::time_point> end_time;  // see TrainResources
  bool quiet = false;
  Communicator* ranks = nullptr;               // all ranks of the run call train(); null: one process
  Json versions = Json::object();              // of program and libraries, for the run's record
  std::vector<std::string> arguments;          // of the program, likewise
  std::function<void(std::string_view)> note;  // remarks for the user, a line each; may be empty
};

// The tokenizer of a run: tokenizer.name_or_path if it is on this machine, else the one beside the data, else null.
// Null where the data is generated ids.
std::unique_ptr<Tokenizer> run_tokenizer(const RunConfig& config);

// Trains. Errors: data (shards missing, empty, shorter than a window, ids outside the vocabulary, other tokenizer),
// checkpoint (cut, changed, of another model), config (training settings differ from the checkpoint's), usage (the
// run folder already holds checkpoints and neither resume nor overwrite is asked for), system.
TrainResult train(const RunSettings& settings, const TrainRequest& request, const TrainHooks& hooks);

// Text of --dry-run: parameters by part, FLOPs, memory, steps, disk. Needs neither data nor weights nor the device;
// says what of the data is there, and with request.resume where the run would go on. Errors: as train()'s, of
// the device's name and of resuming.
std::string describe_run(const RunSettings& settings, const TrainRequest& request);

}  // namespace satformer
