#include "kernels/linear_cross_entropy/cuda.h"

#include <cmath>

#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

template <class T, int W>
struct LossRows {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  CrossEntropy<T> a;

  SATFORMER_TEAM_PROGRAM {
    for (int64_t row = team.index; row < a.rows; row += team.count) {
      T* x = a.logits + row * a.columns;
      const int64_t target = a.targets[row];
      if (target == a.ignored) {
        team.once([&] { a.losses[row] = 0.0f; });
        if (a.grad) {
          team.template each<W>(a.columns, [&](int i) { store_pack<W>(x + i, Pack<W>{}); });
        }
        continue;
      }
      const bool valid = target >= 0 && target < a.columns;
      const float target_logit = valid ? rows::load(x[target]) : NAN;
      const float largest = team.max(a.columns / W, [&](int i) {
        const Pack<W> v = load_pack<W>(x + i * W);
        float m = v.v[0];
        for (int w = 1; w < W; ++w) m = m < v.v[w] ? v.v[w] : m;
        return m;
      });
      const auto total = team.template sum<1, W>(a.columns, [&](int i, float(&s)[1]) {
        const Pack<W> v = load_pack<W>(x + i);
        for (int w = 0; w < W; ++w) s[0] += rows::exp_fp32(v.v[w] - largest);
      });
      team.once([&] { a.losses[row] = logf(total.v[0]) + (largest - target_logit); });
      if (!a.grad) continue;
      // Who reads the target's logit above must have done so.
      team.sync();
      const float factor = a.scale / total.v[0];
      team.template each<W>(a.columns, [&](int i) {
        Pack<W> v = load_pack<W>(x + i);
        for (int w = 0; w < W; ++w) {
          v.v[w] = rows::exp_fp32(v.v[w] - largest) * factor - (i + w == target ? a.scale : 0.0f);
        }
        store_pack<W>(x + i, v);
      });
    }
  }
};

}  // namespace

template <class T>
void cross_entropy(const Where& where, const CrossEntropy<T>& args) {
  if (args.packs) {
    launch(where, {args.rows, threads_for(args.columns, 4), 0}, LossRows<T, 4>{args});
  } else {
    launch(where, {args.rows, threads_for(args.columns, 1), 0}, LossRows<T, 1>{args});
  }
}

template void cross_entropy(const Where&, const CrossEntropy<float>&);
template void cross_entropy(const Where&, const CrossEntropy<rows::bf16>&);

}  // namespace satformer::gpu
