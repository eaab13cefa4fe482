#include "kernels/gpu/launch.h"
#include "kernels/hyper_connection/cuda.h"

namespace satformer::gpu {
namespace {

constexpr int W = 4;
using Four = Pack<W>;

// A token's coefficients.
template <int N>
struct Coefficients {
  float mix[N][N];  // [from, to]
  float beta[N];
};

template <int N, class T>
SATFORMER_HD Coefficients<N> coefficients(const HyperWrite<T>& a, int64_t token) {
  const float* alpha = a.alpha + (a.is_static ? 0 : token * N * (N + 1));
  const float* beta = a.beta + (a.is_static ? 0 : token * N);
  Coefficients<N> c;
  for (int k = 0; k < N; ++k) {
    c.beta[k] = beta[k];
    for (int j = 0; j < N; ++j) c.mix[k][j] = alpha[k * (N + 1) + j + 1];
  }
  return c;
}

template <class T, int N>
struct Write {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  HyperWrite<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int D = a.columns;
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const Coefficients<N> c = coefficients<N>(a, token);
      team.template each<W>(D, [&](int i) {
        const Four output = load_pack<W>(a.output + token * D + i);
        Four x[N];
        for (int k = 0; k < N; ++k) x[k] = load_pack<W>(a.streams + (token * N + k) * D + i);
        for (int j = 0; j < N; ++j) {
          Four y;
          for (int w = 0; w < W; ++w) {
            y.v[w] = c.beta[j] * output.v[w];
            for (int k = 0; k < N; ++k) y.v[w] += c.mix[k][j] * x[k].v[w];
          }
          store_pack<W>(a.out + (token * N + j) * D + i, y);
        }
      });
    }
  }
};

// One pass: the sums of a token and the gradients of its columns.
template <class T, int N>
struct WriteGrad {
  static constexpr bool warp = false;
  static constexpr int sums = N * (N + 1);  // dbeta_j, then dalpha_kj
  HyperWrite<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int D = a.columns;
    Sums<sums> total;
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const Coefficients<N> c = coefficients<N>(a, token);
      const auto s = team.template sum<sums, W>(D, [&](int i, float(&part)[sums]) {
        const Four output = load_pack<W>(a.output + token * D + i);
        Four dy[N], doutput{};
        for (int j = 0; j < N; ++j) {
          dy[j] = load_pack<W>(a.dy + (token * N + j) * D + i);
          for (int w = 0; w < W; ++w) {
            doutput.v[w] += c.beta[j] * dy[j].v[w];
            part[j] += output.v[w] * dy[j].v[w];
          }
        }
        if (a.doutput) store_pack<W>(a.doutput + token * D + i, doutput);
        for (int k = 0; k < N; ++k) {
          const Four x = load_pack<W>(a.streams + (token * N + k) * D + i);
          Four dx{};
          for (int j = 0; j < N; ++j) {
            for (int w = 0; w < W; ++w) {
              dx.v[w] += c.mix[k][j] * dy[j].v[w];
              part[N + k * N + j] += x.v[w] * dy[j].v[w];
            }
          }
          if (a.dstreams) store_pack<W>(a.dstreams + (token * N + k) * D + i, dx);
        }
      });
      if (a.is_static) {
        for (int q = 0; q < sums; ++q) total.v[q] += s.v[q];
      } else {
        hand_out(team, token, s);
      }
    }
    if (a.is_static) hand_out(team, team.index, total);
  }

  SATFORMER_NO_SIDE_CHECK
  template <class Team>
  SATFORMER_HD_MEMBER void hand_out(Team& team, int64_t row, const Sums<sums>& s) const {
    team.once([&] {
      for (int j = 0; a.dbeta && j < N; ++j) a.dbeta[row * N + j] = s.v[j];
      for (int k = 0; a.dalpha && k < N; ++k) {
        float* dalpha = a.dalpha + (row * N + k) * (N + 1);
        dalpha[0] = 0.0f;
        for (int j = 0; j < N; ++j) dalpha[j + 1] = s.v[N + k * N + j];
      }
    });
  }
};

template <class T, int N>
void launch_write(const Where& where, const HyperWrite<T>& a) {
  launch(where, {a.tokens, threads_for(a.columns, W), 0}, Write<T, N>{a});
}

template <class T, int N>
void launch_grad(const Where& where, const HyperWrite<T>& a) {
  launch(where, {a.is_static ? partial_blocks : a.tokens, threads_for(a.columns, W), 0}, WriteGrad<T, N>{a});
}

}  // namespace

template <class T>
void hyper_write(const Where& where, const HyperWrite<T>& a) {
  if (a.streams_count == 1) launch_write<T, 1>(where, a);
  if (a.streams_count == 2) launch_write<T, 2>(where, a);
  if (a.streams_count == 4) launch_write<T, 4>(where, a);
}

template <class T>
void hyper_write_grad(const Where& where, const HyperWrite<T>& a) {
  if (a.streams_count == 1) launch_grad<T, 1>(where, a);
  if (a.streams_count == 2) launch_grad<T, 2>(where, a);
  if (a.streams_count == 4) launch_grad<T, 4>(where, a);
}

template void hyper_write(const Where&, const HyperWrite<float>&);
template void hyper_write(const Where&, const HyperWrite<rows::bf16>&);
template void hyper_write_grad(const Where&, const HyperWrite<float>&);
template void hyper_write_grad(const Where&, const HyperWrite<rows::bf16>&);

}  // namespace satformer::gpu
