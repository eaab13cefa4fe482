#include "nn/routing/routings.h"

#include "base/error.h"

namespace satformer {

std::unique_ptr<ResidualRouting> make_residual_routing(const ModelConfig& config, ParameterStore& store) {
  const std::string& name = config.residual_routing;
  if (name == "plain") return make_plain_routing(config, store);
  if (name == "dense") return make_dense_routing(config, store);
  if (name == "mudd") return make_mudd_routing(config, store);
  if (name == "hyper") return make_hyper_routing(config, store);
  fail(ExitCode::config, "unknown residual_routing '", name, "'");
}

std::string layer_name(std::int64_t layer, const std::string& name) {
  return concat("model.layers.", layer, ".", name);
}

at::Tensor add_norm_weight(const ModelConfig& config, std::int64_t layer, const std::string& name,
                           ParameterStore& store) {
  return store.add(layer_name(layer, name) + ".weight", {config.hidden_size}, Init::constant(1), ParamKind::norm,
                   "norm");
}

}  // namespace satformer
