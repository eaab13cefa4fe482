// DenseFormer: after each block a learned average of all earlier states.
#include "models/architectures.h"

namespace satformer {

Architecture denseformer_architecture() {
  Architecture a;
  a.name = "denseformer";
  a.class_name = "DenseFormerForCausalLM";
  a.config_class = "DenseFormerConfig";
  a.model_type = "denseformer";
  a.residual_routing = "dense";
  a.value_path = "own";
  a.own_keys = {"dwa_dilation", "dwa_period"};
  return a;
}

}  // namespace satformer
