// ResFormer: later layers add layer 0's values with learned weights that are the same for every token.
#include "models/architectures.h"

namespace satformer {

Architecture resformer_architecture() {
  Architecture a;
  a.name = "resformer";
  a.class_name = "ResFormerForCausalLM";
  a.config_class = "ResFormerConfig";
  a.model_type = "resformer";
  a.residual_routing = "plain";
  a.value_path = "resformer";
  a.own_keys = {"use_value_residual", "value_residual_last_k", "value_layers", "value_residual_lambda2_init"};
  return a;
}

}  // namespace satformer
