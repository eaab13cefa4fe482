#include "kernels/dense_average/dense_average.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_dense_average() {
  add({.name = "dense_average",
       .make_inputs =
           [] {
             TensorList inputs;
             for (std::int64_t j = 0; j <= layers; ++j) inputs.push_back(random_tensor({B, T, D}));
             inputs.push_back(random_tensor({layers + 1}));
             return inputs;
           },
       .body =
           [](const TensorList& in) {
             return TensorList{dense_average({in.begin(), in.end() - 1}, in.back())};
           }});
}

}  // namespace satformer::benchmarks
