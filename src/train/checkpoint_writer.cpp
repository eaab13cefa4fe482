#include "train/checkpoint_writer.h"

#include <chrono>
#include <memory>
#include <system_error>
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
  const auto snapshot = std::make_shared<const CheckpointParts>(std::move(parts));
  try {
    thread_ = std::thread([this, snapshot] {
      try {
        write(*snapshot);
      } catch (...) {
        error_ = std::current_exception();
      }
      done_ = true;
    });
  } catch (const std::system_error&) {  // no thread is to be had, for want of memory for instance
    write(*snapshot);
  }
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
