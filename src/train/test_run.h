// Small data, configurations and folders for the tests of this folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "train/run_config.h"

namespace satformer::testing_support {

// Of a line of metrics: what the clock and the machine decide.
inline void erase_performance(Json& line) {
  for (auto it = line.begin(); it != line.end();) it = it.key().starts_with("perf/") ? line.erase(it) : std::next(it);
}

// uint16 ids below `vocab_size`, with some structure to learn.
inline void write_shard(const std::string& path, std::int64_t tokens, std::int64_t vocab_size, std::uint64_t seed) {
  const Philox random(seed, 1);
  std::ofstream out(path, std::ios::binary);
  std::uint16_t previous = 0;
  for (std::int64_t i = 0; i < tokens; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(i));
    previous = static_cast<std::uint16_t>(u < 0.7 ? (previous * 7 + 3) % vocab_size
                                                  : static_cast<std::int64_t>(u * 1e6) % vocab_size);
    out.write(reinterpret_cast<const char*>(&previous), 2);
  }
}

// Shards of 32-token vocabulary and overrides of a model that trains a step in milliseconds.
struct TinyRun {
  TestFolder folder;
  std::vector<std::string> overrides;

  explicit TinyRun(const std::string& class_name = "SATFormerForCausalLM") {
    std::filesystem::create_directories(folder / "data");
    write_shard(folder / "data/train_00000.bin", 700, 32, 1);
    write_shard(folder / "data/train_00001.bin", 500, 32, 2);
    write_shard(folder / "data/val_00000.bin", 16 * 65 + 1, 32, 3);
    overrides = {"model.class_name=" + class_name,
                 "model.config_overrides.vocab_size=32",
                 "model.config_overrides.hidden_size=32",
                 "model.config_overrides.num_hidden_layers=2",
                 "model.config_overrides.num_heads=2",
                 "model.config_overrides.intermediate_size=48",
                 "model.config_overrides.max_position_embeddings=64",
                 "data.data_dir=" + (folder / "data"),
                 "data.seq_length=16",
                 "training.batch_size=2",
                 "training.gradient_accumulation_steps=4",
                 "training.learning_rate=0.003",
                 "training.min_lr=0.0003",
                 "training.warmup_tokens=0.000000512",  // 4 steps
                 "training.max_tokens=0.00000256",      // 20 steps
                 "checkpointing.checkpoint_dir=" + (folder / "run"),
                 "checkpointing.checkpoint_interval=5",
                 "logging.log_interval=3",
                 "logging.eval_interval=8",
                 "logging.eval_iters=1",
                 "system.threads=1"};
  }
  RunSettings settings(std::vector<std::string> more = {}) const {
    ConfigSources sources;
    sources.overrides = overrides;
    sources.overrides.insert(sources.overrides.end(), more.begin(), more.end());
    return RunSettings(sources);
  }
  std::string run() const { return folder / "run"; }
};

}  // namespace satformer::testing_support
