#include "kernels/attention/attention.h"

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_attention() {
  const auto add_heads = [](const std::string& name, std::int64_t kv_heads, const AttentionMask& mask) {
    add({.name = name,
         .make_inputs =
             [kv_heads] {
               return TensorList{random_tensor({B, T, heads, head_dim}), random_tensor({B, T, kv_heads, head_dim}),
                                 random_tensor({B, T, kv_heads, head_dim})};
             },
         .body = [mask](const TensorList& in) { return TensorList{attention(in[0], in[1], in[2], mask)}; }});
  };
  add_heads("attention", heads, {});
  add_heads("attention_grouped", 2, {});
  add_heads("attention_window", heads, {.window = 128});
}

}  // namespace satformer::benchmarks
