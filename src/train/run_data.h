// The windows of a run: token shards or generated examples, opened and checked.
#pragma once

#include <memory>
#include <string>

#include "data/window_source.h"
#include "data/windows.h"
#include "io/tokenizer.h"
#include "train/run_config.h"

namespace satformer {

struct RunData {
  std::shared_ptr<const WindowSource> train, validation;
  std::shared_ptr<const WindowOrder> order;  // of the training windows, as data.order names it
  bool marked = false;                       // the targets that count alone are learnt
  bool text = true;                          // the ids are a tokenizer's
  std::string generator;                     // settings of generated windows, JSON; empty: shards
};

// Whether the configuration's data is text, which a tokenizer belongs to.
bool data_is_text(const RunConfig& config);

// Opens shards or generator. Errors: data (shards missing, shorter than a window, of another tokenizer, without marks
// that data.targets or training.target_accuracy need), config (options that no example fits, ids that the model's
// vocabulary has not). `tokenizer` may be null; it outlives the data.
RunData open_run_data(const RunConfig& config, const Tokenizer* tokenizer);

// Reads every id and mark of the shards; their SHA-256 (empty for generated windows). Error(data).
std::string check_run_data(const RunConfig& config);

}  // namespace satformer
