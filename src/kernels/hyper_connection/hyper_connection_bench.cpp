#include "kernels/hyper_connection/hyper_connection.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_hyper_connection() {
  constexpr std::int64_t n = 4;
  const auto params_of = [](const TensorList& in) {
    HyperConnectionParams p;
    p.static_alpha = in[2];
    p.static_beta = in[3];
    p.dynamic_alpha_proj = in[4];
    p.dynamic_beta_proj = in[5];
    p.dynamic_alpha_scale = in[6];
    p.dynamic_beta_scale = in[7];
    p.norm_weight = in[8];
    return p;
  };
  const auto inputs = [] {
    return TensorList{random_tensor({B, T, n, D}),
                      random_tensor({B, T, D}),
                      random_tensor({n, n + 1}),
                      random_tensor({n}),
                      random_tensor({D, n + 1}, 0.05),
                      random_tensor({D}, 0.05),
                      random_tensor({1}),
                      random_tensor({1}),
                      random_tensor({D})};
  };
  // What one sublayer costs: reading, then writing.
  add({.name = "hyper_connection", .make_inputs = inputs, .body = [params_of](const TensorList& in) {
         const HyperRead read = hyper_read(in[0], params_of(in));
         return TensorList{read.input_BTD, hyper_write(in[0], read, in[1])};
       }});
}

}  // namespace satformer::benchmarks
