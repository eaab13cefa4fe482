#include "kernels/depth_aggregate/depth_aggregate.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_depth_aggregate() {
  // The last aggregation but one: four ways over all states, with norms.
  constexpr std::int64_t states = layers, ways = 4;
  add({.name = "depth_aggregate",
       .make_inputs =
           [] {
             TensorList inputs;
             for (std::int64_t j = 0; j < states; ++j) inputs.push_back(random_tensor({B, T, D}));
             inputs.push_back(random_tensor({B, T, ways, states}));
             for (std::int64_t j = 0; j < states + ways; ++j) inputs.push_back(random_tensor({D}));
             return inputs;
           },
       .body =
           [](const TensorList& in) {
             const DepthAggregateNorms norms{.pre = {in.begin() + states + 1, in.begin() + 2 * states + 1},
                                             .post = {in.begin() + 2 * states + 1, in.end()}};
             return depth_aggregate({in.begin(), in.begin() + states}, in[states], norms);
           }});
}

}  // namespace satformer::benchmarks
