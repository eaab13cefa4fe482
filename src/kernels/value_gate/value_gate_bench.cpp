#include "kernels/value_gate/value_gate.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_value_gate() {
  for (const Gate gate : {Gate::relu, Gate::softmax_sigmoid}) {
    add({.name = "value_gate_" + gate_names()[static_cast<std::size_t>(gate)],
         .make_inputs =
             [] {
               return TensorList{random_tensor({B, T, heads, head_dim}), random_tensor({B, T, heads, head_dim}),
                                 random_tensor({B, T, heads})};
             },
         .body = [gate](const TensorList& in) { return TensorList{value_gate(in[0], in[1], in[2], gate)}; }});
  }
  add({.name = "static_value_mix",
       .make_inputs =
           [] {
             return TensorList{random_tensor({B, T, heads, head_dim}), random_tensor({B, T, heads, head_dim}),
                               random_tensor({}), random_tensor({})};
           },
       .body = [](const TensorList& in) { return TensorList{static_value_mix(in[0], in[1], in[2], in[3])}; }});
}

}  // namespace satformer::benchmarks
