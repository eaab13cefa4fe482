// Generated tasks among those of `satformer eval --tasks`.
#pragma once

#include <string>
#include <vector>

#include "cli/text_options.h"
#include "data/synthetic/options.h"
#include "eval/synthetic.h"

namespace satformer::cli {

// Takes the names of generated tasks out of `tasks` (which may hold lists with commas) and returns them.
std::vector<std::string> take_synthetic_tasks(std::vector<std::string>& tasks);

// The options of each task, weakest source first: defaults with the vocabulary and window length of the model, what
// the model was trained with if that was the same task, "synthetic.KEY=VALUE" overrides. Error(config); Error(usage)
// for an override that no task reads.
std::vector<SyntheticOptions> synthetic_options(const std::vector<std::string>& names, const LoadedModel& loaded,
                                                const std::vector<std::string>& overrides);

// A model that is asked in ids: without text, and without a tokenizer if there is none.
LoadedText load_plain_model(const TextOptions& options);

}  // namespace satformer::cli
