// Training a part of a model.
#pragma once

#include <string>

#include "nn/parameters.h"

namespace satformer {

// Leaves gradients to the parameters whose names match one of `patterns` (shell wildcards, separated by commas) and
// freezes the others. The number of elements that are trained. Error(config) for a pattern that matches nothing,
// naming the nearest parameter.
std::int64_t train_only(ParameterStore& parameters, const std::string& patterns);

}  // namespace satformer
