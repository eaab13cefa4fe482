// Where a run starts: the checkpoint it goes on from, and whether that checkpoint is of this very run.
#pragma once

#include <string>

#include "checkpoint/training_state.h"
#include "train/session.h"

namespace satformer {

struct ResumePoint {
  std::string checkpoint;  // empty: a new run
  TrainingState state;
};

// Chooses by request.resume and reads run_config.json and state.json. Errors: usage (the run folder already holds
// checkpoints, or newer ones), checkpoint (damaged, of another model), config (training settings differ).
ResumePoint find_resume_point(const RunSettings& settings, const TrainRequest& request);

// Verifies every file of the checkpoint. Error(checkpoint) names the newest whole checkpoint before a damaged one.
void verify_resume_point(const ResumePoint& point);

}  // namespace satformer
