// generate() with proposals from each row's own text.
#pragma once

#include "infer/generator.h"

namespace satformer {

// The prompts have been checked, and options.sampling.temperature is 0.
std::vector<std::vector<std::int64_t>> generate_speculating(Model& model,
                                                            const std::vector<std::vector<std::int64_t>>& prompts,
                                                            const GenerateOptions& options);

}  // namespace satformer
