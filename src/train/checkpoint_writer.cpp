#include "train/checkpoint_writer.h"

#include <chrono>
#include <utility>

namespace satformer {

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::write(const CheckpointParts& parts) {
  const auto start = std::chrono::steady_clock::now();
  Saved saved{parts.state.step, save_checkpoint(folder_, parts), 0};
  folder_.prune(keep_);
  saved.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  saved_ = std::move(saved);
}

void CheckpointWriter::save(CheckpointParts parts) {
  if (!background_) return write(parts);
  const std::optional<Saved> before = wait();
  take_snapshot(parts);
  saved_ = before;  // not told yet
  done_ = false;
  thread_ = std::thread([this, parts = std::move(parts)] {
    try {
      write(parts);
    } catch (...) {
      error_ = std::current_exception();
    }
    done_ = true;
  });
}

std::optional<CheckpointWriter::Saved> CheckpointWriter::take() {
  if (thread_.joinable() && !done_) return {};
  return wait();
}

std::optional<CheckpointWriter::Saved> CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::exchange(saved_, std::nullopt);
}

}  // namespace satformer
