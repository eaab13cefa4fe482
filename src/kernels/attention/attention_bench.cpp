#include "kernels/attention/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/div.h>

#include "kernels/kernels_bench.h"

namespace satformer::benchmarks {

void add_attention() {
  const auto add_heads = [](const std::string& name, std::int64_t kv_heads, const AttentionMask& mask,
                            at::ScalarType dtype = at::kFloat) {
    add({.name = name,
         .make_inputs =
             [kv_heads, dtype] {
               const auto random = [&](std::int64_t count) {
                 return random_tensor({B, T, count, head_dim}).to(dtype);
               };
               return TensorList{random(heads), random(kv_heads), random(kv_heads)};
             },
         .body = [mask](const TensorList& in) { return TensorList{attention(in[0], in[1], in[2], mask)}; }});
  };
  add_heads("attention", heads, {});
  add_heads("attention_bfloat16", heads, {}, at::kBFloat16);
  add_heads("attention_grouped", 2, {});
  add_heads("attention_window", heads, {.window = 128});
  const at::Tensor documents_of_150 = at::arange(T, at::kLong).div(150, "floor").expand({B, T});
  add_heads("attention_documents", heads, {.document_BT = documents_of_150});
}

}  // namespace satformer::benchmarks
