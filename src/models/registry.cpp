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

namespace {

// Keys of value paths that no architecture is named after.
struct ValuePathKeys {
  const char* value_path;
  std::vector<std::string> keys;
};
std::span<const ValuePathKeys> unnamed_value_paths() {
  static const std::vector<std::string> where = {"use_value_residual", "value_residual_last_k", "value_layers"};
  static const auto with = [](std::vector<std::string> keys) {
    keys.insert(keys.end(), where.begin(), where.end());
    return keys;
  };
  static const std::vector<ValuePathKeys> list = {{"fixed", where},
                                                  {"svformer", where},
                                                  {"neutreno", with({"neutreno_lambda", "neutreno_values"})},
                                                  {"lime", with({"lime_keys"})}};
  return list;
}

}  // namespace

std::vector<std::string> unread_model_keys(const ModelConfig& config) {
  const auto in_use = [&](const Architecture& a) {
    return a.value_path == "own" ? a.residual_routing == config.residual_routing : a.value_path == config.value_path;
  };
  std::vector<std::string> unread, read;
  const auto sort_in = [&](bool used, const std::vector<std::string>& keys) {
    std::vector<std::string>& list = used ? read : unread;
    list.insert(list.end(), keys.begin(), keys.end());
  };
  for (const Architecture& a : architectures()) sort_in(in_use(a), a.own_keys);
  for (const ValuePathKeys& p : unnamed_value_paths()) sort_in(p.value_path == config.value_path, p.keys);
  sort_in(config.position_type == "rotary", {"rope_theta", "rope_type", "rope_factor"});
  sort_in(config.rope_type == "llama3", {"rope_low_freq_factor", "rope_high_freq_factor", "rope_original_positions"});
  for (const std::string& key : read) std::erase(unread, key);  // a key of two is read if either is in use
  std::sort(unread.begin(), unread.end());
  unread.erase(std::unique(unread.begin(), unread.end()), unread.end());
  return unread;
}

std::unique_ptr<Model> make_model(const Architecture& architecture, const ModelConfig& config, at::Device device) {
  config.validate();
  return make_decoder(architecture.name, config, device);
}

}  // namespace satformer
