// Everything a training run is told, in the JSON layout that the SATFormer authors publish: sections model,
// tokenizer, data, training, checkpointing, logging, system. Keys of theirs that mean nothing here are accepted and
// listed as unused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "data/synthetic/options.h"
#include "models/registry.h"
#include "train/guards.h"

namespace satformer {

struct ModelSection {
  std::optional<std::string> source, module, config_module, config_class_name;
  std::string class_name = "SATFormerForCausalLM";
  bool from_pretrained = false;
  std::optional<std::string> pretrained_path, name_or_path;
  ModelConfig config;  // config_overrides
  void visit(FieldVisitor& visitor);
};

struct TokenizerSection {
  std::optional<std::string> name_or_path;
  bool save_with_model = true;
  void visit(FieldVisitor& visitor);
};

struct DataSection {
  std::string data_dir = "data", train_prefix = "train", val_prefix = "val";
  std::int64_t seq_length = 2048;
  bool mask_documents = false;
  std::string order = "shuffled";                    // shuffled | authors
  std::int64_t order_ranks = 1, order_workers = 16;  // for "authors"
  std::optional<std::string> targets;                // all | marked; null: marked where the data have marks
  // With a task: windows are generated instead of read from data_dir. Its vocab_size and seq_length are the model's
  // and this section's.
  SyntheticOptions synthetic;
  void visit(FieldVisitor& visitor);
};
inline constexpr const char* authors_order = "authors";  // data.order: see data/authors_order.h

struct TrainingSection {
  std::int64_t batch_size = 8, gradient_accumulation_steps = 4;
  bool gradient_checkpointing = false;
  double learning_rate = 3e-4, min_lr = 3e-5;
  double warmup_tokens = 0.5, max_tokens = 10.0;  // billions
  std::string lr_decay_style = "cosine";
  double weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, adam_eps = 1e-8, grad_clip = 1.0;
  std::string decay = "matrices";    // matrices | all
  std::string dtype = "float32";     // float32 | bfloat16 | pure-bfloat16
  std::string rounding = "nearest";  // pure-bfloat16: nearest | stochastic
  double gate_lr_scale = 1.0, scalar_lr_scale = 1.0;
  std::optional<double> gate_decay, scalar_decay;
  std::optional<double> target_accuracy;
  std::int64_t zero = 0;  // 1: each rank keeps its share of the optimizer's state
  SpikeOptions spike;
  std::optional<std::string> train_only;  // patterns of parameter names, separated by commas
  bool compile_model = false, fused_adamw = false;
  void visit(FieldVisitor& visitor);
};

inline constexpr const char* pure_bfloat16 = "pure-bfloat16";  // training.dtype

struct CheckpointingSection {
  std::string checkpoint_dir = "checkpoints";
  std::int64_t checkpoint_interval = 1000;  // 0: only at the end
  bool save_final_model = true;
  std::int64_t keep_last = 3;  // 0: all
  bool async = false;
  void visit(FieldVisitor& visitor);
};

struct LoggingSection {
  std::int64_t log_interval = 10;
  std::int64_t eval_interval = 500;  // 0: only at the end
  std::int64_t eval_iters = 50;      // times 64 windows
  std::int64_t sample_interval = 0;  // 0: never
  std::string sample_prompt = "The";
  std::int64_t sample_tokens = 64;
  std::optional<std::string> wandb_project, wandb_run_name;
  std::optional<std::int64_t> frozen_interval;
  std::int64_t gate_interval = 0;  // 0: never
  void visit(FieldVisitor& visitor);
};

struct SystemSection {
  std::int64_t seed = 42;
  std::int64_t threads = 0;
  std::string device = "cpu";
  std::int64_t num_workers = 4, prefetch_factor = 4;
  bool pin_memory = true, persistent_workers = true;
  void visit(FieldVisitor& visitor);
};

struct RunConfig {
  ModelSection model;
  TokenizerSection tokenizer;
  DataSection data;
  TrainingSection training;
  CheckpointingSection checkpointing;
  LoggingSection logging;
  SystemSection system;

  void visit(FieldVisitor& visitor);
  // Combinations that single bounds cannot see: Error(config) naming both values.
  void validate() const;

  std::int64_t tokens_per_step() const;   // targets: batch x accumulation x seq_length
  std::int64_t windows_per_step() const;  // batch x accumulation
  std::int64_t total_steps() const;       // token budget / tokens_per_step, rounded down
  std::int64_t warmup_steps() const;
  std::string pretrained() const;  // the folder to start from; empty: random weights
};

// Where the settings come from, weakest first; defaults are below all of them.
struct ConfigSources {
  std::string file;                      // --config; empty: none
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<std::string> overrides;    // "section.key=value"
};

// A resolved and checked configuration with the origin of each value.
class RunSettings {
 public:
  // Error(config, system) if a source is unreadable, a key unknown or a value impossible.
  //
  // What follows from other settings: residual_routing and value_path from class_name; with from_pretrained, the
  // architecture and model fields from the pretrained folder; training.decay "all" for configs in the authors' layout
  // (model.source "local_class" or a model.module), since their recipe decays every parameter; data.order_workers
  // from system.num_workers where data.order is "authors".
  explicit RunSettings(const ConfigSources& sources);

  const RunConfig& config() const { return *config_; }
  const Architecture& architecture() const { return *architecture_; }
  // Keys that some source gave and that have no effect: compatibility keys, options of other architectures and of
  // other synthetic tasks, shards beside a synthetic task.
  const std::vector<std::string>& unused() const { return unused_; }
  // Model fields that a source gave and that are not the pretrained model's, one sentence each.
  const std::vector<std::string>& changed_from_pretrained() const { return changed_; }
  std::string show() const;  // every value with its origin
  Json to_json() const;      // without the unused keys; as a --config file it gives the same run

 private:
  std::unique_ptr<RunConfig> config_;
  std::unique_ptr<ConfigBinding> binding_;
  void note_synthetic_keys();
  void note_optimizer_keys();
  void leave_out(const std::string& key);
  void take_from_pretrained(const std::string& prefix);

  const Architecture* architecture_ = nullptr;
  std::vector<std::string> unused_, other_keys_, changed_;
};

// Lines for --help: every field with default and meaning.
std::string describe_run_config();

}  // namespace satformer
