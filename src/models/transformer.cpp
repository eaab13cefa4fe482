// The baseline: one residual stream, every layer its own values.
#include "models/architectures.h"

namespace satformer {

Architecture transformer_architecture() {
  Architecture a;
  a.name = "transformer";
  a.class_name = "TransformerForCausalLM";
  a.config_class = "TransformerConfig";
  a.model_type = "transformer";
  a.residual_routing = "plain";
  a.value_path = "own";
  a.own_keys = {};
  return a;
}

}  // namespace satformer
