#include "kernels/rms_norm/cuda.h"

#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

template <int W>
SATFORMER_HD Pack<W> weight_pack(const float* weight, int i) {
  if (weight) return load_pack<W>(weight + i);
  Pack<W> ones;
  for (int w = 0; w < W; ++w) ones.v[w] = 1.0f;
  return ones;
}

// x, or x + residual.
template <int W, class T>
SATFORMER_HD Pack<W> input_pack(const RmsNorm<T>& a, int64_t at) {
  Pack<W> x = load_pack<W>(a.x + at);
  if (a.residual) {
    const Pack<W> r = load_pack<W>(a.residual + at);
    for (int w = 0; w < W; ++w) x.v[w] += r.v[w];
  }
  return x;
}

template <class T, int W>
struct NormRows {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  RmsNorm<T> a;

  SATFORMER_TEAM_PROGRAM {
    for (int64_t row = team.index; row < a.rows; row += team.count) {
      const int64_t at = row * a.columns;
      const auto squares = team.template sum<1, W>(a.columns, [&](int i, float(&s)[1]) {
        const Pack<W> x = input_pack<W>(a, at + i);
        for (int w = 0; w < W; ++w) s[0] += x.v[w] * x.v[w];
      });
      const float rstd = rows::rsqrt_fp32(squares.v[0] / static_cast<float>(a.columns) + a.eps);
      team.template each<W>(a.columns, [&](int i) {
        const Pack<W> x = input_pack<W>(a, at + i), weight = weight_pack<W>(a.weight, i);
        Pack<W> y;
        for (int w = 0; w < W; ++w) y.v[w] = x.v[w] * rstd * weight.v[w];
        store_pack<W>(a.y + at + i, y);
        if (a.sum) store_pack<W>(a.sum + at + i, x);
      });
    }
  }
};

// dx = rstd * (w dy - xhat mean(w dy xhat)) + dsum,  dw = sum of dy xhat. A team sums dw over its rows in scratch.
template <class T, int W>
struct NormGradRows {
  static constexpr bool warp = false;
  static constexpr int sums = 2;
  RmsNormGrad<T> a;

  SATFORMER_TEAM_PROGRAM {
    float* dweight = team.scratch;
    if (a.dweight) {
      team.template each<W>(a.columns, [&](int i) {
        for (int w = 0; w < W; ++w) dweight[i + w] = 0.0f;
      });
    }
    for (int64_t row = team.index; row < a.rows; row += team.count) {
      const int64_t at = row * a.columns;
      const auto s = team.template sum<2, W>(a.columns, [&](int i, float(&part)[2]) {
        const Pack<W> x = load_pack<W>(a.x + at + i), dy = load_pack<W>(a.dy + at + i),
                      weight = weight_pack<W>(a.weight, i);
        for (int w = 0; w < W; ++w) {
          part[0] += x.v[w] * x.v[w];
          part[1] += x.v[w] * (dy.v[w] * weight.v[w]);
        }
      });
      const float rstd = rows::rsqrt_fp32(s.v[0] / static_cast<float>(a.columns) + a.eps);
      const float k = rstd * rstd * rstd * (s.v[1] / static_cast<float>(a.columns));
      team.template each<W>(a.columns, [&](int i) {
        const Pack<W> x = load_pack<W>(a.x + at + i), dy = load_pack<W>(a.dy + at + i),
                      weight = weight_pack<W>(a.weight, i);
        if (a.dx) {
          Pack<W> dx;
          for (int w = 0; w < W; ++w) dx.v[w] = rstd * (dy.v[w] * weight.v[w]) - k * x.v[w];
          if (a.dsum) {
            const Pack<W> dsum = load_pack<W>(a.dsum + at + i);
            for (int w = 0; w < W; ++w) dx.v[w] += dsum.v[w];
          }
          store_pack<W>(a.dx + at + i, dx);
        }
        if (a.dweight) {
          for (int w = 0; w < W; ++w) dweight[i + w] += dy.v[w] * (x.v[w] * rstd);
        }
      });
    }
    if (a.dweight) {
      team.template each<W>(a.columns, [&](int i) {
        for (int w = 0; w < W; ++w) a.dweight[team.index * a.columns + i + w] = dweight[i + w];
      });
    }
  }
};

template <class T, int W>
void launch_grad(const Where& where, const RmsNormGrad<T>& args) {
  const Grid grid{args.dweight ? partial_blocks : args.rows, threads_for(args.columns, W),
                  args.dweight ? args.columns : 0};
  launch(where, grid, NormGradRows<T, W>{args});
}

}  // namespace

template <class T>
void rms_norm(const Where& where, const RmsNorm<T>& args) {
  if (args.packs) {
    launch(where, {args.rows, threads_for(args.columns, 4), 0}, NormRows<T, 4>{args});
  } else {
    launch(where, {args.rows, threads_for(args.columns, 1), 0}, NormRows<T, 1>{args});
  }
}

template <class T>
void rms_norm_grad(const Where& where, const RmsNormGrad<T>& args) {
  args.packs ? launch_grad<T, 4>(where, args) : launch_grad<T, 1>(where, args);
}

template void rms_norm(const Where&, const RmsNorm<float>&);
template void rms_norm(const Where&, const RmsNorm<rows::bf16>&);
template void rms_norm_grad(const Where&, const RmsNormGrad<float>&);
template void rms_norm_grad(const Where&, const RmsNormGrad<rows::bf16>&);

}  // namespace satformer::gpu
