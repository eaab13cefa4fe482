// Writes a run's checkpoints, in the background if asked to.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "checkpoint/training_state.h"

namespace satformer {

class CheckpointWriter {
 public:
  struct Saved {
    std::int64_t step = 0;
    std::string path;
    double seconds = 0;  // of writing
  };

  // `keep`: checkpoints that stay (0: all); older ones go when a newer one is safe. The folder outlives the writer.
  CheckpointWriter(const RunFolder& folder, std::int64_t keep, bool background)
      : folder_(folder), keep_(keep), background_(background) {}
  ~CheckpointWriter();  // waits; an error is lost unless wait() came before
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the checkpoint before, then writes this one. In the background it copies what `parts` refer to and
  // returns; what is saved is the same.
  void save(CheckpointParts parts);
  // What was saved since the last call of either; take() does not wait. Errors of writing are thrown here.
  std::optional<Saved> take();
  std::optional<Saved> wait();

 private:
  void write(const CheckpointParts& parts);

  const RunFolder& folder_;
  std::int64_t keep_;
  bool background_;
  std::thread thread_;
  std::atomic<bool> done_ = false;
  std::exception_ptr error_;
  std::optional<Saved> saved_;
};

}  // namespace satformer
