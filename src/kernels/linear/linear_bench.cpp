#include <ATen/core/grad_mode.h>

#include "kernels/kernels_bench.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/packed.h"

namespace satformer::benchmarks {

// Thirty weights of 4 MiB in fp32, more than the caches of a core, read in turn; the reference is libtorch's product
// (of unpacked weights). `linear/FORMAT/ROWS`.
void add_linear() {
  for (const char* format : {"float32", "bfloat16", "int8", "int4"}) {
    for (const std::int64_t rows : {1, 4, 16}) {
      add_plain(std::string("linear/") + format + "/" + std::to_string(rows), [=]() -> std::function<void()> {
        const std::string name = format;
        const at::ScalarType dtype = name == "bfloat16" ? at::kBFloat16 : at::kFloat;
        std::vector<LinearWeight> weights;
        for (int i = 0; i < 30; ++i) {
          const at::Tensor dense = random_tensor({F, D}, 0.02);
          if (dtype == at::kBFloat16 || name == "float32") {
            weights.push_back({dense.to(dtype)});
          } else {
            const WeightFormat packed = name == "int8" ? WeightFormat::int8 : WeightFormat::int4;
            weights.push_back({{}, std::make_shared<const PackedWeight>(pack_weight(dense, packed))});
          }
        }
        return [weights, x = random_tensor({rows, D}).to(dtype)] {
          const at::NoGradGuard no_grad;
          for (const LinearWeight& weight : weights) linear(x, weight);
        };
      });
    }
  }
}

}  // namespace satformer::benchmarks
