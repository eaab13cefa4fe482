// What the ranks of a training run tell one another: that they are of the same run, where it goes on, and the state
// that rank 0 has read.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/training_state.h"
#include "distributed/agree.h"
#include "train/resume.h"
#include "train/run_config.h"

namespace satformer {

// What must be equal on all ranks. Error(config) or Error(data) on a rank that differs from rank 0 names what
// differs.
struct RankContract {
  const RunSettings* settings = nullptr;
  std::string version;  // of program and libraries
  std::int64_t max_steps = 0;
  std::string train_data_sha256;  // shards
  std::string data_generator;     // generated windows
  std::int64_t train_windows = 0, validation_windows = 0;
};
void check_same_run_on_ranks(Communicator& ranks, const RankContract& own);

// Error(config) where a step cannot be shared out among the ranks.
void check_ranks(Communicator& ranks, const RunConfig& config);

// Rank 0's, on all ranks.
void share_resume_point(Communicator& ranks, ResumePoint& point);

}  // namespace satformer
