// What training needs to go on as if it had never stopped: weights, optimizer moments, position in the data,
// counters.
//   model.safetensors  config.json  [tokenizer]  optimizer.safetensors  run_config.json  state.json
// state.json is written last and holds the SHA-256 of every file, itself included (checkpoint/file_hashes.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/run_folder.h"
#include "nn/model.h"

namespace satformer {

struct TrainingState {
  std::int64_t step = 0;            // updates made
  std::int64_t windows = 0;         // windows consumed: the position in the data order, over epochs
  std::int64_t tokens = 0;          // targets trained on
  std::int64_t validated_step = 0;  // last step with a validation
  std::int64_t seed = 0;            // the generators are counter-based: seed and position are their whole state
  std::int64_t train_windows = 0;   // windows of an epoch, to recognise other data
  std::string train_data_sha256;    // TokenShards::verify_contents() of the training data; empty: not recorded
  // Since the last line of metrics.jsonl.
  double loss_sum = 0;
  std::int64_t loss_steps = 0;
  std::string train_data_generator;                // settings of generated training data, JSON; empty: shards
  std::string spikes;                              // SpikeGuard::state()
  double seconds = 0;                              // spent in training steps
  double reached_accuracy = 0;                     // of the validation that ended the run early; 0: none did
  std::int64_t warmup_steps = 0, total_steps = 0;  // of the schedule, for the record
};

struct NamedTensor {
  std::string name;
  at::Tensor value;  // fp32, or bf16 without masters
};

struct CheckpointParts {
  const Model* model = nullptr;
  std::vector<NamedTensor> optimizer;
  TrainingState state;
  std::string run_config;                                            // text of run_config.json
  std::function<void(const std::string& directory)> save_tokenizer;  // may be empty
  // Of a snapshot, in the model's place.
  std::vector<NamedTensor> weights;
  std::string model_config;  // text of config.json
};

// Copies weights and moments into host memory: what is saved then no longer depends on the model.
void take_snapshot(CheckpointParts& parts);

// Writes the checkpoint of state.step into the run folder and returns its path. Error(system) names the file that
// could not be written; earlier checkpoints are untouched.
std::string save_checkpoint(const RunFolder& folder, const CheckpointParts& parts);

// Reads state.json, whose numbers are checked, and nothing else. Error(checkpoint).
TrainingState read_training_state(const std::string& path);
// Verifies the hash of every file that state.json lists. Error(checkpoint): missing, cut or changed files.
void verify_checkpoint(const std::string& path);
// Loads weights and moments in place. Error(checkpoint) if names or shapes differ.
void load_checkpoint(const std::string& path, Model& model, const std::vector<NamedTensor>& optimizer);
// run_config.json, its hash verified.
Json checkpoint_run_config(const std::string& path);

// Checkpoint folder for --resume PATH: a checkpoint, or a run folder (its newest). Error(checkpoint) if there is
// none.
std::string resolve_checkpoint(const std::string& path);

}  // namespace satformer
