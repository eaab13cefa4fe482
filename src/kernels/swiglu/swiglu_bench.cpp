#include "kernels/swiglu/swiglu.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_swiglu() {
  add({.name = "swiglu",
       .make_inputs =
           [] {
             return TensorList{random_tensor({B, T, F}), random_tensor({B, T, F})};
           },
       .body = [](const TensorList& in) { return TensorList{swiglu(in[0], in[1])}; }});
  add({.name = "gated_mlp",
       .make_inputs =
           [] {
             return TensorList{random_tensor({B, T, D}), random_tensor({F, D}, 0.02), random_tensor({F, D}, 0.02),
                               random_tensor({D, F}, 0.02)};
           },
       .body = [](const TensorList& in) { return TensorList{gated_mlp(in[0], in[1], in[2], in[3])}; }});
}

}  // namespace satformer::benchmarks
