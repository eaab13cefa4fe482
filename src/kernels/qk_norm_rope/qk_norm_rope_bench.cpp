#include "kernels/qk_norm_rope/qk_norm_rope.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_qk_norm_rope() {
  const RopeTable table = make_rope_table(T, head_dim, 10000.0, at::kCPU);
  for (const bool norm : {false, true}) {
    add({.name = norm ? "qk_norm_rope" : "rope",
         .make_inputs =
             [norm] {
               return TensorList{random_tensor({B, T, heads, head_dim}),
                                 norm ? random_tensor({head_dim}) : at::Tensor()};
             },
         .body = [table](const TensorList& in) { return TensorList{qk_norm_rope(in[0], in[1], 1e-5, table, {})}; }});
  }
}

}  // namespace satformer::benchmarks
