#include "kernels/linear_cross_entropy/linear_cross_entropy.h"

#include <ATen/ops/randint.h>

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_linear_cross_entropy() {
  add({.name = "linear_cross_entropy",
       .make_inputs =
           [] {
             return TensorList{random_tensor({B * T, D}), random_tensor({V, D}, 0.02),
                               at::randint(V, {B * T}, at::TensorOptions().dtype(at::kLong))};
           },
       .body =
           [](const TensorList& in) {
             return TensorList{linear_cross_entropy(in[0], in[1], in[2], 1.0 / (B * T))};
           }});
}

}  // namespace satformer::benchmarks
