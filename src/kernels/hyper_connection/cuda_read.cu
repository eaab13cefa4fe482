#include "kernels/gpu/launch.h"
#include "kernels/hyper_connection/cuda.h"

namespace satformer::gpu {
namespace {

constexpr int W = 4;
using Four = Pack<W>;

// sum_k coefficient[k] x_k at columns i .. i + 3, x_k a stream of the token at `x`.
template <int N, class T>
SATFORMER_HD Four mixed(const float* coefficient, const T* x, int64_t columns) {
  Four sum{};
  for (int k = 0; k < N; ++k) {
    const Four v = load_pack<W>(x + k * columns);
    for (int w = 0; w < W; ++w) sum.v[w] += coefficient[k] * v.v[w];
  }
  return sum;
}

template <class T, int N>
struct ReadStatic {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  HyperRead<T> a;

  SATFORMER_TEAM_PROGRAM {
    float first[N];
    for (int k = 0; k < N; ++k) first[k] = a.static_alpha[k * (N + 1)];
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const T* x = a.streams + token * N * a.columns;
      team.template each<W>(a.columns, [&](int i) {
        store_pack<W>(a.input + token * a.columns + i, mixed<N>(first, x + i, a.columns));
      });
    }
  }
};

template <class T, int N>
struct Read {
  static constexpr bool warp = false;
  static constexpr int per_stream = N + 3;  // the squares and the n + 2 products
  static constexpr int sums = N * per_stream;
  HyperRead<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int D = a.columns;
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const T* x = a.streams + token * N * D;
      Sums<N> mean;
      if (a.layer_norm) {
        mean = team.template sum<N, W>(D, [&](int i, float(&part)[N]) {
          for (int k = 0; k < N; ++k) {
            const Four v = load_pack<W>(x + k * D + i);
            for (int w = 0; w < W; ++w) part[k] += v.v[w];
          }
        });
        for (int k = 0; k < N; ++k) mean.v[k] /= static_cast<float>(D);
      }
      const auto s = team.template sum<sums, W>(D, [&](int i, float(&part)[sums]) {
        Four v[N];
        for (int k = 0; k < N; ++k) {
          v[k] = load_pack<W>(x + k * D + i);
          for (int w = 0; w < W; ++w) {
            v[k].v[w] -= mean.v[k];
            part[k * per_stream] += v[k].v[w] * v[k].v[w];
          }
        }
        for (int j = 0; j < N + 2; ++j) {
          const Four p = load_pack<W>(a.proj + j * D + i);
          for (int k = 0; k < N; ++k) {
            for (int w = 0; w < W; ++w) part[k * per_stream + 1 + j] += v[k].v[w] * p.v[w];
          }
        }
      });
      float first[N];
      for (int k = 0; k < N; ++k) {
        const int64_t row = token * N + k;
        const float rstd = rows::rsqrt_fp32(s.v[k * per_stream] / static_cast<float>(D) + a.eps);
        float z[N + 2], gain[N + 2];
        for (int j = 0; j < N + 2; ++j) {
          z[j] = s.v[k * per_stream + 1 + j] * rstd + a.proj_bias[j];
          const float t = a.use_tanh ? rows::tanh_fp32(z[j]) : z[j];
          gain[j] = j == N + 1 ? *a.scale_beta * t + a.static_beta[k]
                               : *a.scale_alpha * t + a.static_alpha[k * (N + 1) + j];
        }
        first[k] = gain[0];
        team.once([&] {
          float* stats = a.stats + row * (N + 4);
          for (int j = 0; j < N + 2; ++j) stats[j] = z[j];
          stats[N + 2] = rstd;
          stats[N + 3] = mean.v[k];
          for (int j = 0; j < N + 1; ++j) a.alpha[row * (N + 1) + j] = gain[j];
          a.beta[row] = gain[N + 1];
        });
      }
      team.template each<W>(D, [&](int i) { store_pack<W>(a.input + token * D + i, mixed<N>(first, x + i, D)); });
    }
  }
};

template <class T, int N>
struct ReadStaticGrad {
  static constexpr bool warp = false;
  static constexpr int sums = N;
  HyperReadGrad<T> a;

  SATFORMER_TEAM_PROGRAM {
    Sums<N> total;
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const int64_t at = token * N * a.columns;
      const auto s = team.template sum<N, W>(a.columns, [&](int i, float(&part)[N]) {
        const Four d = load_pack<W>(a.dinput + token * a.columns + i);
        for (int k = 0; k < N; ++k) {
          const Four x = load_pack<W>(a.streams + at + k * a.columns + i);
          Four dx;
          for (int w = 0; w < W; ++w) {
            part[k] += d.v[w] * x.v[w];
            dx.v[w] = a.alpha[k * (N + 1)] * d.v[w];
          }
          if (a.dstreams) store_pack<W>(a.dstreams + at + k * a.columns + i, dx);
        }
      });
      for (int k = 0; k < N; ++k) total.v[k] += s.v[k];
    }
    if (!a.dsums) return;
    team.once([&] {
      float* sums_of_block = a.dsums + team.index * N * (N + 1);
      for (int j = 0; j < N * (N + 1); ++j) sums_of_block[j] = 0.0f;
      for (int k = 0; k < N; ++k) sums_of_block[k * (N + 1)] = total.v[k];
    });
  }
};

// What a token's columns need for the gradient of its streams and the projections.
template <int N>
struct StreamGrads {
  float dz[N][N + 2];  // times rstd
  float first[N], k1[N], k0[N], mean[N];
};

// Scratch of a block: the projections' gradient [n + 2, D], then the small sums as in HyperSums.
template <class T, int N>
struct ReadGrad {
  static constexpr bool warp = false;
  static constexpr int sums = N;
  HyperReadGrad<T> a;

  // From the gradients of alpha, beta and input to those of z; the small sums are added to by the calling thread if
  // `small` is given.
  SATFORMER_HD_MEMBER StreamGrads<N> stream_grads(int64_t token, const float* dfirst, float* small) const {
    const HyperSums layout = hyper_sums(N, a.columns);
    StreamGrads<N> g;
    for (int k = 0; k < N; ++k) {
      const int64_t row = token * N + k;
      const float* z = a.stats + row * (N + 4);
      const float rstd = z[N + 2];
      g.first[k] = a.alpha[row * (N + 1)];
      g.mean[k] = z[N + 3];
      float along = 0.0f, shift = 0.0f;
      for (int j = 0; j < N + 2; ++j) {
        const bool is_beta = j == N + 1;
        float d = is_beta ? (a.dbeta ? a.dbeta[row] : 0.0f) : (a.dalpha ? a.dalpha[row * (N + 1) + j] : 0.0f);
        if (j == 0) d += dfirst[k];
        const float t = a.use_tanh ? rows::tanh_fp32(z[j]) : z[j];
        const float dz = d * (is_beta ? *a.scale_beta : *a.scale_alpha) * (a.use_tanh ? 1.0f - t * t : 1.0f);
        along += dz * (z[j] - a.proj_bias[j]);
        if (a.layer_norm) shift += dz * a.proj_mean[j];
        g.dz[k][j] = dz * rstd;
        if (!small) continue;
        small[is_beta ? layout.at_static_beta + k : k * (N + 1) + j] += d;
        small[layout.at_scales + (is_beta ? 1 : 0)] += d * t;
        small[layout.at_dz + j] += dz;
      }
      g.k1[k] = rstd * rstd * (along / static_cast<float>(a.columns));
      g.k0[k] = -rstd * shift;
    }
    return g;
  }

  SATFORMER_TEAM_PROGRAM {
    const int D = a.columns;
    const HyperSums layout = hyper_sums(N, D);
    float* dproj = a.dsums ? team.scratch : nullptr;
    float* small = team.scratch + (N + 2) * D;
    if (dproj) {
      team.template each<W>((N + 2) * D, [&](int i) { store_pack<W>(dproj + i, Four{}); });
      team.once([&] {
        for (int j = 0; j < layout.at_proj; ++j) small[j] = 0.0f;
      });
      team.sync();
    }
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const T* x = a.streams + token * N * D;
      const T* dinput = a.dinput ? a.dinput + token * D : nullptr;
      Sums<N> dfirst;
      if (dinput) {
        dfirst = team.template sum<N, W>(D, [&](int i, float(&part)[N]) {
          const Four d = load_pack<W>(dinput + i);
          for (int k = 0; k < N; ++k) {
            const Four v = load_pack<W>(x + k * D + i);
            for (int w = 0; w < W; ++w) part[k] += d.v[w] * v.v[w];
          }
        });
      }
      const StreamGrads<N> g = stream_grads(token, dfirst.v, nullptr);
      if (dproj) team.once([&] { stream_grads(token, dfirst.v, small); });
      team.template each<W>(D, [&](int i) {
        Four v[N], dx[N];
        const Four d = dinput ? load_pack<W>(dinput + i) : Four{};
        for (int k = 0; k < N; ++k) {
          v[k] = load_pack<W>(x + k * D + i);
          for (int w = 0; w < W; ++w) {
            v[k].v[w] -= g.mean[k];
            dx[k].v[w] = g.first[k] * d.v[w] + g.k0[k] - g.k1[k] * v[k].v[w];
          }
        }
        for (int j = 0; j < N + 2; ++j) {
          const Four p = load_pack<W>(a.proj + j * D + i);
          Four sum = dproj ? load_pack<W>(dproj + j * D + i) : Four{};
          for (int k = 0; k < N; ++k) {
            for (int w = 0; w < W; ++w) {
              dx[k].v[w] += g.dz[k][j] * p.v[w];
              sum.v[w] += g.dz[k][j] * v[k].v[w];
            }
          }
          if (dproj) store_pack<W>(dproj + j * D + i, sum);
        }
        for (int k = 0; a.dstreams && k < N; ++k) store_pack<W>(a.dstreams + (token * N + k) * D + i, dx[k]);
      });
    }
    if (!dproj) return;
    float* sums_of_block = a.dsums + team.index * layout.width;
    team.sync();
    team.template each<1>((N + 2) * D, [&](int i) { sums_of_block[layout.at_proj + i] = dproj[i]; });
    team.once([&] {
      for (int j = 0; j < layout.at_proj; ++j) sums_of_block[j] = small[j];
    });
  }
};

template <class T, int N>
void launch_read(const Where& where, const HyperRead<T>& a) {
  const Grid grid{a.tokens, threads_for(a.columns, W), 0};
  a.proj ? launch(where, grid, Read<T, N>{a}) : launch(where, grid, ReadStatic<T, N>{a});
}

template <class T, int N>
void launch_grad(const Where& where, const HyperReadGrad<T>& a) {
  Grid grid{a.dsums ? partial_blocks : a.tokens, threads_for(a.columns, W), 0};
  if (!a.proj) {
    launch(where, grid, ReadStaticGrad<T, N>{a});
    return;
  }
  if (a.dsums) grid.scratch = hyper_sums(N, a.columns).width;
  launch(where, grid, ReadGrad<T, N>{a});
}

}  // namespace

template <class T>
void hyper_read(const Where& where, const HyperRead<T>& a) {
  if (a.streams_count == 1) launch_read<T, 1>(where, a);
  if (a.streams_count == 2) launch_read<T, 2>(where, a);
  if (a.streams_count == 4) launch_read<T, 4>(where, a);
}

template <class T>
void hyper_read_grad(const Where& where, const HyperReadGrad<T>& a) {
  if (a.streams_count == 1) launch_grad<T, 1>(where, a);
  if (a.streams_count == 2) launch_grad<T, 2>(where, a);
  if (a.streams_count == 4) launch_grad<T, 4>(where, a);
}

template void hyper_read(const Where&, const HyperRead<float>&);
template void hyper_read(const Where&, const HyperRead<rows::bf16>&);
template void hyper_read_grad(const Where&, const HyperReadGrad<float>&);
template void hyper_read_grad(const Where&, const HyperReadGrad<rows::bf16>&);

}  // namespace satformer::gpu
