// Hyper-Connections: several parallel residual streams with learned, token-dependent mixing.
#include "models/architectures.h"

namespace satformer {

Architecture hyperconnections_architecture() {
  Architecture a;
  a.name = "hyperconnections";
  a.class_name = "HyperConnectionsForCausalLM";
  a.config_class = "HyperConnectionsConfig";
  a.model_type = "hyperconnections";
  a.residual_routing = "hyper";
  a.value_path = "own";
  a.own_keys = {"expansion_rate", "use_dynamic_hc", "use_tanh", "hc_norm_type", "hc_weights"};
  return a;
}

}  // namespace satformer
