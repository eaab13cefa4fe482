// The residual routings, for make_residual_routing().
#pragma once

#include "nn/residual_routing.h"

namespace satformer {

std::unique_ptr<ResidualRouting> make_plain_routing(const ModelConfig& config, ParameterStore& store);
std::unique_ptr<ResidualRouting> make_dense_routing(const ModelConfig& config, ParameterStore& store);
std::unique_ptr<ResidualRouting> make_mudd_routing(const ModelConfig& config, ParameterStore& store);
std::unique_ptr<ResidualRouting> make_hyper_routing(const ModelConfig& config, ParameterStore& store);

// The norm in front of a sublayer: "model.layers.<layer>.<name>.weight" [C].
// "model.layers.N.NAME".
std::string layer_name(std::int64_t layer, const std::string& name);
at::Tensor add_norm_weight(const ModelConfig& config, std::int64_t layer, const std::string& name,
                           ParameterStore& store);

}  // namespace satformer
