// Mixing weights of hyper-connections beyond those that kernels/hyper_connection fuses: other norms in front of the
// dynamic weights, and mHC's manifold. Plain autograd code, computed in fp32.
//   layer_plain  LayerNorm without weights (eps 1e-5)        l2  x / |x| sqrt(C) (1 + gamma)
//   manifold     (arXiv 2512.24880) from the logits A = [a_pre | A_res] [n, n+1] and b [n] that the dynamic and
//   static
//                parts give: pre = sigmoid(a_pre), beta = 2 sigmoid(b), mix = Sinkhorn(exp(A_res)), 20 iterations
#pragma once

#include <string>

#include "kernels/hyper_connection/hyper_connection.h"

namespace satformer {

struct HyperVariant {
  std::string norm = "rms";  // hc_norm_type
  bool manifold = false;
  bool fused() const { return !manifold && (norm == "rms" || norm == "layer"); }
};

// As hyper_read(). params.norm_weight is gamma with norm "l2"; undefined with "layer_plain".
HyperRead hyper_read_variant(const at::Tensor& streams_BTnD, const HyperConnectionParams& params,
                             const HyperVariant& variant);

// The doubly stochastic matrix that alternating row and column normalisation of exp(logits) [..., n, n] approaches.
at::Tensor sinkhorn(const at::Tensor& logits, int iterations);

}  // namespace satformer
