// metrics.jsonl: one line per step, under the authors' keys (train/loss, train/lr, train/grad_norm,
// perf/tokens_per_sec, progress/tokens_B, progress/step, val/loss, val/perplexity).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/json.h"
#include "io/file.h"

namespace satformer {

class MetricsLog {
 public:
  // Continues `path` after `step`: lines of later steps, which a stopped run may have left, and a cut last line are
  // dropped. Step 0 starts anew.
  MetricsLog(std::string path, std::int64_t step);

  // Adds `values` to the line of `step`. Steps never go back; a line reaches the file at once.
  void add(std::int64_t step, const Json& values);
  void sync();

 private:
  std::string path_;
  std::unique_ptr<AppendFile> file_;
  std::int64_t last_step_ = -1;  // step of the last line; -1 without lines
};

}  // namespace satformer
