#include "kernels/qk_norm_rope/cuda.h"

#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

using rows::load;
using rows::rounded_to;
using rows::store;

// Offset of a row's angles in the tables.
template <class T>
SATFORMER_HD int64_t angles_at(const QkNormRope<T>& a, int64_t row) {
  const int64_t token = row / a.heads;
  const int64_t position = a.positions ? a.positions[token] : token % a.tokens_per_row;
  return position * (a.head_dim / 2);
}

template <class T>
struct RopeRows {
  static constexpr bool warp = true;
  QkNormRope<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int D = a.head_dim, half = D / 2;
    const float* weight = a.weight;
    for (int64_t row = team.index; row < a.rows; row += team.count) {
      const T* x = a.x + row * D;
      T* y = a.out + row * D;
      const float *cos = a.cos + angles_at(a, row), *sin = a.sin + angles_at(a, row);
      float rstd = 1.0f;
      if (weight) {
        const auto squares =
            team.template sum<1, 1>(D, [&](int i, float(&s)[1]) { s[0] += load(x[i]) * load(x[i]); });
        rstd = rows::rsqrt_fp32(squares.v[0] / static_cast<float>(D) + a.eps);
      }
      team.template each<1>(half, [&](int i) {
        float first = load(x[i]), second = load(x[i + half]);
        if (weight) {
          first *= rstd * weight[i];
          second *= rstd * weight[i + half];
        }
        const float c = rounded_to<T>(cos[i]), s = rounded_to<T>(sin[i]);
        store(y + i, first * c - second * s);
        store(y + i + half, first * s + second * c);
      });
    }
  }
};

// The rotation's gradient is the rotation back; then the norm's gradient as in rms_norm. A warp sums dw over its rows
// in scratch.
template <class T>
struct RopeGradRows {
  static constexpr bool warp = true;
  QkNormRope<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int D = a.head_dim, half = D / 2;
    const float* weight = a.weight;
    float* dweight = team.scratch;
    if (a.dweight) team.template each<1>(half, [&](int i) { dweight[i] = dweight[i + half] = 0.0f; });
    for (int64_t row = team.index; row < a.rows; row += team.count) {
      const T *x = a.x + row * D, *dy = a.dy + row * D;
      T* dx = a.out ? a.out + row * D : nullptr;
      const float *cos = a.cos + angles_at(a, row), *sin = a.sin + angles_at(a, row);
      float rstd = 1.0f, k = 0.0f;
      if (weight) {
        const auto s = team.template sum<2, 1>(half, [&](int i, float(&part)[2]) {
          const float c = rounded_to<T>(cos[i]), si = rounded_to<T>(sin[i]), x0 = load(x[i]), x1 = load(x[i + half]);
          const float d0 = load(dy[i]) * c + load(dy[i + half]) * si, d1 = load(dy[i + half]) * c - load(dy[i]) * si;
          part[0] += x0 * x0 + x1 * x1;
          part[1] += x0 * (d0 * weight[i]) + x1 * (d1 * weight[i + half]);
        });
        rstd = rows::rsqrt_fp32(s.v[0] / static_cast<float>(D) + a.eps);
        k = rstd * rstd * rstd * (s.v[1] / static_cast<float>(D));
      }
      team.template each<1>(half, [&](int i) {
        const float c = rounded_to<T>(cos[i]), si = rounded_to<T>(sin[i]);
        float d0 = load(dy[i]) * c + load(dy[i + half]) * si, d1 = load(dy[i + half]) * c - load(dy[i]) * si;
        if (weight) {
          const float x0 = load(x[i]), x1 = load(x[i + half]);
          if (a.dweight) {
            dweight[i] += d0 * (x0 * rstd);
            dweight[i + half] += d1 * (x1 * rstd);
          }
          d0 = rstd * (d0 * weight[i]) - k * x0;
          d1 = rstd * (d1 * weight[i + half]) - k * x1;
        }
        if (dx) {
          store(dx + i, d0);
          store(dx + i + half, d1);
        }
      });
    }
    if (a.dweight) {
      float* to = a.dweight + team.index * D;
      team.template each<1>(half, [&](int i) {
        to[i] = dweight[i];
        to[i + half] = dweight[i + half];
      });
    }
  }
};

}  // namespace

template <class T>
void qk_norm_rope(const Where& where, const QkNormRope<T>& args) {
  launch(where, {args.rows, warp_size, 0}, RopeRows<T>{args});
}

template <class T>
void qk_norm_rope_grad(const Where& where, const QkNormRope<T>& args) {
  const Grid grid{args.dweight ? partial_warps : args.rows, warp_size, args.dweight ? args.head_dim : 0};
  launch(where, grid, RopeGradRows<T>{args});
}

template void qk_norm_rope(const Where&, const QkNormRope<float>&);
template void qk_norm_rope(const Where&, const QkNormRope<rows::bf16>&);
template void qk_norm_rope_grad(const Where&, const QkNormRope<float>&);
template void qk_norm_rope_grad(const Where&, const QkNormRope<rows::bf16>&);

}  // namespace satformer::gpu
