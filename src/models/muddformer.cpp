// MUDDFormer: separate query, key, value and residual streams, each a dynamic mix of all earlier states.
#include "models/architectures.h"

namespace satformer {

Architecture muddformer_architecture() {
  Architecture a;
  a.name = "muddformer";
  a.class_name = "MUDDFormerForCausalLM";
  a.config_class = "MUDDFormerConfig";
  a.model_type = "muddformer";
  a.residual_routing = "mudd";
  a.value_path = "own";
  a.own_keys = {"num_ways",     "param_realloc",  "use_pre_post_da_norm",
                "mudd_w1_init", "mudd_post_norm", "mudd_pre_norm"};
  return a;
}

}  // namespace satformer
