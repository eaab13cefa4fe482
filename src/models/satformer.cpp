// SATFormer (arXiv 2605.03953): later layers add layer 0's values through a gate per token and KV head.
#include "models/architectures.h"

namespace satformer {

Architecture satformer_architecture() {
  Architecture a;
  a.name = "satformer";
  a.class_name = "SATFormerForCausalLM";
  a.config_class = "SATFormerConfig";
  a.model_type = "satformer";
  a.residual_routing = "plain";
  a.value_path = "satformer";
  a.own_keys = {"use_value_residual",       "value_residual_last_k",  "value_layers",   "value_residual_gate",
                "value_residual_proj_bias", "value_gate_granularity", "value_gate_ffn", "value_gate_bias_init",
                "value_gate_init_std",      "value_sources",          "value_place"};
  return a;
}

}  // namespace satformer
