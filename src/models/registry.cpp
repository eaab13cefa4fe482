#include "models/registry.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/architectures.h"

namespace satformer {

std::span<const Architecture> architectures() {
  static const std::vector<Architecture> list = {
      transformer_architecture(), resformer_architecture(),  satformer_architecture(),
      denseformer_architecture(), muddformer_architecture(), hyperconnections_architecture(),
  };
  return list;
}

const Architecture& architecture_by_name(std::string_view name) {
  std::vector<std::string> known;
  for (const Architecture& a : architectures()) {
    if (name == a.name || name == a.class_name || name == a.model_type) return a;
    known.push_back(a.name);
    known.push_back(a.class_name);
  }
  std::string list;
  for (const Architecture& a : architectures()) list += (list.empty() ? "" : ", ") + a.class_name;
  fail(ExitCode::config, "unknown architecture '", name, "' (known: ", list, ").", did_you_mean(name, known));
}

ModelConfig default_model_config(const Architecture& architecture) {
  ModelConfig config;
  config.residual_routing = architecture.residual_routing;
  config.value_path = architecture.value_path;
  return config;
}

ModelConfig model_config_from_json(const Architecture& architecture, const Json& overrides,
                                   const std::string& origin) {
  ModelConfig config = default_model_config(architecture);
  ConfigBinding binding(config);
  binding.apply_json(overrides, origin);
  config.validate();
  return config;
}

std::vector<std::string> unread_model_keys(const ModelConfig& config) {
  const auto in_use = [&](const Architecture& a) {
    return a.value_path == "own" ? a.residual_routing == config.residual_routing : a.value_path == config.value_path;
  };
  std::vector<std::string> unread;
  for (const Architecture& a : architectures()) {
    if (!in_use(a)) unread.insert(unread.end(), a.own_keys.begin(), a.own_keys.end());
  }
  for (const Architecture& a : architectures()) {  // a key of two architectures is read if either is in use
    if (!in_use(a)) continue;
    for (const std::string& key : a.own_keys) std::erase(unread, key);
  }
  std::sort(unread.begin(), unread.end());
  unread.erase(std::unique(unread.begin(), unread.end()), unread.end());
  return unread;
}

std::unique_ptr<Model> make_model(const Architecture& architecture, const ModelConfig& config, at::Device device) {
  config.validate();
  return make_decoder(architecture.name, config, device);
}

}  // namespace satformer
