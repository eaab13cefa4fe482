#include "kernels/adamw/adamw.h"

#include <memory>

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_adamw() {
  const auto make = [] {
    auto t = std::make_shared<AdamWTensors>();
    for (const std::int64_t rows : {V, V, 8 * layers * D}) {  // embedding, head, the layers' matrices
      t->params.push_back(random_tensor({rows, D}));
      t->grads.push_back(random_tensor({rows, D}));
      t->m.push_back(random_tensor({rows, D}));
      t->v.push_back(random_tensor({rows, D}).square());
    }
    return t;
  };
  add_plain("adamw", [make]() -> std::function<void()> {
    return [t = make()] { adamw_step(*t, {.weight_decay = 0.1, .step = 10}); };
  });
  add_plain("global_norm", [make]() -> std::function<void()> { return [t = make()] { global_norm(t->grads); }; });
}

}  // namespace satformer::benchmarks
