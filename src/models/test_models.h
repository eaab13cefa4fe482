// Small models for the tests of routings, value paths and their options.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/registry.h"

namespace satformer::testing {

inline constexpr std::int64_t small_vocabulary = 53;

// Three layers of width 32, four query heads on two KV heads.
ModelConfig small_config(const std::string& routing, const std::string& values);
// Zero-initialised parts would hide mistakes: every parameter is moved away from its start.
void randomise(Model& model);
at::Tensor random_ids(std::int64_t B, std::int64_t T, std::int64_t vocab = small_vocabulary);

// An option of a routing or a value path under a name of its own.
struct Variant {
  std::string name;
  std::string part;  // residual_routing or value_path
  std::function<void(ModelConfig&)> set = [](ModelConfig&) {};
  int gates = 0;                  // calls of an observer's gate() in one pass
  std::int64_t cache_floats = 0;  // per row and slot, beyond a Transformer's cache (negative: below)
};
const std::vector<Variant>& routing_variants();
const std::vector<Variant>& value_variants();

}  // namespace satformer::testing
