#include "kernels/rms_norm/rms_norm.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_rms_norm() {
  add({.name = "rms_norm",
       .make_inputs =
           [] {
             return TensorList{random_tensor({B, T, D}), random_tensor({D})};
           },
       .body = [](const TensorList& in) { return TensorList{rms_norm(in[0], in[1], 1e-6)}; }});
  add({.name = "add_rms_norm",
       .make_inputs =
           [] {
             return TensorList{random_tensor({B, T, D}), random_tensor({B, T, D}), random_tensor({D})};
           },
       .body =
           [](const TensorList& in) {
             const AddNorm r = satformer::add_rms_norm(in[0], in[1], in[2], 1e-6);
             return TensorList{r.normed, r.sum};
           }});
}

}  // namespace satformer::benchmarks
