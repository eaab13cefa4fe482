// A value path added to a trained model that has none, so that it starts as the same function.
#pragma once

#include <memory>
#include <string>

#include "models/registry.h"

namespace satformer {

struct RetrofitPlan {
  std::string value_path;  // satformer, resformer or lime
  ModelConfig config;      // of the new model
  bool exact = true;       // it starts as the same function: every new part adds nothing
};
// `addition`: NAME or NAME[key=value,...] with the fields of value paths, such as satformer[gate=tanh,last_k=4] or
// satformer[value_gate_granularity=head]; short: gate, granularity, sources, layers, last_k, place, ffn, bias, std.
// Lists are written 0;1. SATFormer's gate is tanh unless named; its gates start at zero with tanh and identity, and
// as in training from scratch with the others, which then change the model (`exact` is false). Error(usage) for what
// cannot be added or could not learn.
RetrofitPlan plan_retrofit(const std::string& addition, const ModelConfig& base);

// The new model: the base's parameters, and new ones by the plan; `seed` for those that are random.
std::unique_ptr<Model> retrofit(const Model& base, const RetrofitPlan& plan, std::uint64_t seed);

}  // namespace satformer
