#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "kernels/adamw/adamw.h"
#include "kernels/cpu_rows.h"

namespace satformer::cpu {
namespace {

// All tensors cut into pieces of this many elements, so that many small tensors share one parallel loop.
constexpr std::int64_t piece_elements = 32768;

struct Piece {
  std::size_t tensor;
  std::int64_t begin, end;
};

std::vector<Piece> pieces_of(const std::vector<at::Tensor>& tensors) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t n = tensors[i].defined() ? tensors[i].numel() : 0;
    for (std::int64_t b = 0; b < n; b += piece_elements) pieces.push_back({i, b, std::min(n, b + piece_elements)});
  }
  return pieces;
}

}  // namespace

void adamw_step(AdamWTensors& tensors, const AdamWOptions& o) {
  const rows::IsaTable& isa = isa_table();
  const auto t = static_cast<double>(o.step);
  std::vector<at::Tensor> grads;
  for (const auto& g : tensors.grads) grads.push_back(g.contiguous());
  const std::vector<Piece> pieces = pieces_of(tensors.params);
  parallel_ranges(static_cast<std::int64_t>(pieces.size()), piece_elements,
                  [&](std::int64_t first, std::int64_t last) {
                    for (std::int64_t p = first; p < last; ++p) {
                      const Piece& piece = pieces[static_cast<std::size_t>(p)];
                      const std::size_t i = piece.tensor;
                      with_element(isa, grads[i].scalar_type(), [&](const auto& table, auto element) {
                        using T = decltype(element);
                        const rows::AdamW<T> args{
                            .param = out<float>(tensors.params[i]),
                            .grad = in<T>(grads[i]),
                            .m = out<float>(tensors.m[i]),
                            .v = out<float>(tensors.v[i]),
                            .grad_scale = static_cast<float>(o.grad_scale),
                            .decay = static_cast<float>(1.0 - o.learning_rate * o.weight_decay),
                            .beta1 = static_cast<float>(o.beta1),
                            .one_minus_beta1 = static_cast<float>(1.0 - o.beta1),
                            .beta2 = static_cast<float>(o.beta2),
                            .one_minus_beta2 = static_cast<float>(1.0 - o.beta2),
                            .correction2 = static_cast<float>(1.0 - std::pow(o.beta2, t)),
                            .eps = static_cast<float>(o.eps),
                            .step_size = static_cast<float>(o.learning_rate / (1.0 - std::pow(o.beta1, t)))};
                        table.adamw(args, piece.begin, piece.end);
                      });
                    }
                  });
  // As an in-place operation of ATen would: a graph that saved the parameter must notice.
  for (auto* list : {&tensors.params, &tensors.m, &tensors.v}) {
    for (auto& tensor : *list) {
      if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    }
  }
}

double global_norm(const std::vector<at::Tensor>& tensors) {
  const rows::IsaTable& isa = isa_table();
  std::vector<at::Tensor> contiguous;
  for (const auto& t : tensors) contiguous.push_back(t.defined() ? t.contiguous() : t);
  const std::vector<Piece> pieces = pieces_of(contiguous);
  std::vector<double> sums(pieces.size());
  parallel_ranges(static_cast<std::int64_t>(pieces.size()), piece_elements,
                  [&](std::int64_t first, std::int64_t last) {
                    for (std::int64_t p = first; p < last; ++p) {
                      const Piece& piece = pieces[static_cast<std::size_t>(p)];
                      const at::Tensor& x = contiguous[piece.tensor];
                      with_element(isa, x.scalar_type(), [&](const auto& table, auto element) {
                        using T = decltype(element);
                        const rows::SumOfSquares<T> args{in<T>(x), &sums[static_cast<std::size_t>(p)]};
                        table.sum_of_squares(args, piece.begin, piece.end);
                      });
                    }
                  });
  double total = 0;
  for (const double s : sums) total += s;
  return std::sqrt(total);
}

}  // namespace satformer::cpu
