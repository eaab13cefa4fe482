// The value paths, for make_value_path().
#pragma once

#include "nn/value_path.h"

namespace satformer {

std::unique_ptr<ValuePath> make_resformer_values(const ModelConfig& config, ParameterStore& store);
std::unique_ptr<ValuePath> make_satformer_values(const ModelConfig& config, ParameterStore& store);
std::unique_ptr<ValuePath> make_fixed_values(const ModelConfig& config);
std::unique_ptr<ValuePath> make_svformer_values(const ModelConfig& config);
std::unique_ptr<ValuePath> make_neutreno_values(const ModelConfig& config);
std::unique_ptr<ValuePath> make_lime_values(const ModelConfig& config, ParameterStore& store);

}  // namespace satformer
