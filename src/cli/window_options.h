// The options of commands that run a model over windows of token shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/progress.h"
#include "cli/model_options.h"
#include "data/windows.h"
#include "infer/window_loss.h"
#include "io/file.h"

namespace satformer::cli {

struct WindowOptions {
  std::string data_dir, prefix = "val", output;
  std::int64_t seq_length = 0, batch_size = 8, limit = 0;

  void add_to(Options& options, bool data_required,
              const char* output_help = "Write the result as JSON to this file");
  void check() const;  // after parsing: Error(usage) for numbers out of range
  // check(), and opens --output as a file, so that a bad path is told before the work.
  std::unique_ptr<AtomicFile> check_and_open_output() const;
  // The windows, for a loaded model. Errors: usage (no --data-dir), config (longer than the model's context), data
  // (shards missing, ids outside the model's vocabulary, made with another tokenizer than the model's).
  TokenWindows open(const LoadedModel& loaded) const;
  // Batch size, limit, documents apart as in training, and a progress line "NAME: n/m windows" with the loss if
  // `with_loss`. `progress` outlives it.
  WindowLossOptions loss_options(const LoadedModel& loaded, const char* name, bool with_loss,
                                 ProgressLine& progress) const;
};

}  // namespace satformer::cli
