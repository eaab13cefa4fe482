// The named architectures: each is one file here and one line in registry.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "nn/model.h"

namespace satformer {

struct Architecture {
  std::string name;                          // "satformer": golden cases, folders
  std::string class_name;                    // "SATFormerForCausalLM": model.class_name of the authors' configs
  std::string config_class;                  // "SATFormerConfig"
  std::string model_type;                    // "satformer": config.json
  std::string residual_routing, value_path;  // the pair that the name implies
  std::vector<std::string> own_keys;         // config keys that only this architecture reads
};
std::span<const Architecture> architectures();
const Architecture& architecture_by_name(std::string_view name);  // by any of its names; Error(config), nearest named

// The defaults of an architecture: ModelConfig's, with its routing and value path.
ModelConfig default_model_config(const Architecture& architecture);
// `overrides`: the authors' model.config_overrides. Errors name `origin`.
ModelConfig model_config_from_json(const Architecture& architecture, const Json& overrides,
                                   const std::string& origin);
// Config keys that a model of this routing and value path does not read, although another one would.
std::vector<std::string> unread_model_keys(const ModelConfig& config);

// Allocates the model. On Device::Meta only shapes exist: nothing can be run, everything can be counted.
std::unique_ptr<Model> make_model(const Architecture& architecture, const ModelConfig& config, at::Device device);

}  // namespace satformer
