#include "kernels/depth_aggregate/cuda.h"

#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

constexpr int W = 4;
using Four = Pack<W>;

// Scratch of a block: `ways` rows of columns, then a reciprocal norm for each state.
template <class T>
int scratch_of(const DepthAggregate<T>& a) {
  return a.ways * a.columns + a.states_count;
}

// pre_j(X_j) / rstd_j of a token.
template <class T>
SATFORMER_HD Four scaled_state(const DepthAggregate<T>& a, int j, int64_t at, int i) {
  Four x = load_pack<W>(a.states[j] + at + i);
  if (a.has_pre) {
    const Four scale = load_pack<W>(a.pre[j] + i);
    for (int w = 0; w < W; ++w) x.v[w] *= scale.v[w];
  }
  return x;
}

// sums[c] = sum_j w[c,j] pre_j(X_j) at columns i .. i + 3.
template <int Ways, class T>
SATFORMER_HD void weighted_sums(const DepthAggregate<T>& a, int64_t token, int i, const float* rstds, Four* sums) {
  const float* weights = a.weights + token * Ways * a.states_count;
  for (int c = 0; c < Ways; ++c) sums[c] = Four{};
  for (int j = 0; j < a.states_count; ++j) {
    const Four x = scaled_state(a, j, token * a.columns, i);
    const float rstd = a.has_pre ? rstds[j] : 1.0f;
    for (int c = 0; c < Ways; ++c) {
      const float weight = weights[c * a.states_count + j] * rstd;
      for (int w = 0; w < W; ++w) sums[c].v[w] += weight * x.v[w];
    }
  }
}

// The reciprocal norms of a token's states into `rstds`, four states to a sum.
template <class T, class Team>
struct StateNorms {
  const DepthAggregate<T>& a;
  Team& team;
  SATFORMER_NO_SIDE_CHECK SATFORMER_HD_MEMBER void operator()(int64_t token, float* rstds) const {
    if (!a.has_pre) return;
    team.sync();  // the last token's norms have been read
    for (int first = 0; first < a.states_count; first += 4) {
      const int states = a.states_count - first < 4 ? a.states_count - first : 4;
      const auto squares = team.template sum<4, W>(a.columns, [&](int i, float(&part)[4]) {
        for (int g = 0; g < 4; ++g) {
          if (g >= states) break;
          const Four x = load_pack<W>(a.states[first + g] + token * a.columns + i);
          for (int w = 0; w < W; ++w) part[g] += x.v[w] * x.v[w];
        }
      });
      team.once([&] {
        for (int g = 0; g < states; ++g) {
          rstds[first + g] = rows::rsqrt_fp32(squares.v[g] / static_cast<float>(a.columns) + a.eps);
        }
      });
    }
    team.sync();
  }
};

template <class T, int Ways>
struct Aggregate {
  static constexpr bool warp = false;
  static constexpr int sums = 4;
  DepthAggregate<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int C = a.columns;
    float* u = team.scratch;
    float* rstds = team.scratch + Ways * C;
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      StateNorms<T, Team>{a, team}(token, rstds);
      const int64_t at = token * C;
      if (!a.has_post) {
        team.template each<W>(C, [&](int i) {
          Four s[Ways];
          weighted_sums<Ways>(a, token, i, rstds, s);
          for (int c = 0; c < Ways; ++c) store_pack<W>(a.out[c] + at + i, s[c]);
        });
        continue;
      }
      const auto squares = team.template sum<Ways, W>(C, [&](int i, float(&part)[Ways]) {
        Four s[Ways];
        weighted_sums<Ways>(a, token, i, rstds, s);
        for (int c = 0; c < Ways; ++c) {
          store_pack<W>(u + c * C + i, s[c]);
          for (int w = 0; w < W; ++w) part[c] += s[c].v[w] * s[c].v[w];
        }
      });
      float rstd[Ways];
      for (int c = 0; c < Ways; ++c) rstd[c] = rows::rsqrt_fp32(squares.v[c] / static_cast<float>(C) + a.eps);
      team.template each<W>(C, [&](int i) {
        const Four last = load_pack<W>(a.states[a.states_count - 1] + at + i);
        for (int c = 0; c < Ways; ++c) {
          const Four scale = load_pack<W>(a.post[c] + i);
          Four y = load_pack<W>(u + c * C + i);
          for (int w = 0; w < W; ++w) y.v[w] = y.v[w] * rstd[c] * scale.v[w] + last.v[w];
          store_pack<W>(a.out[c] + at + i, y);
        }
      });
    }
  }
};

template <class T>
SATFORMER_HD Four dy_pack(const DepthAggregate<T>& a, int c, int64_t at) {
  return a.dy[c] ? load_pack<W>(a.dy[c] + at) : Four{};
}

SATFORMER_HD void add_to(float* sum, const Four& x) {
  Four s = load_pack<W>(sum);
  for (int w = 0; w < W; ++w) s.v[w] += x.v[w];
  store_pack<W>(sum, s);
}

// The gradient of every way's sum into du (scratch), the post norms' into dpost (of this block, added to).
template <class T, int Ways, class Team>
struct SumGrads {
  const DepthAggregate<T>& a;
  Team& team;
  SATFORMER_NO_SIDE_CHECK SATFORMER_HD_MEMBER void operator()(int64_t token, const float* rstds, float* du,
                                                              float* dpost) const {
    const int C = a.columns;
    const int64_t at = token * C;
    if (!a.has_post) {
      team.template each<W>(C, [&](int i) {
        for (int c = 0; c < Ways; ++c) store_pack<W>(du + c * C + i, dy_pack(a, c, at + i));
      });
      return;
    }
    const auto s = team.template sum<2 * Ways, W>(C, [&](int i, float(&part)[2 * Ways]) {
      Four u[Ways];
      weighted_sums<Ways>(a, token, i, rstds, u);
      for (int c = 0; c < Ways; ++c) {
        const Four dy = dy_pack(a, c, at + i), scale = load_pack<W>(a.post[c] + i);
        store_pack<W>(du + c * C + i, u[c]);
        for (int w = 0; w < W; ++w) {
          part[c] += u[c].v[w] * u[c].v[w];
          part[Ways + c] += u[c].v[w] * (dy.v[w] * scale.v[w]);
        }
      }
    });
    team.template each<W>(C, [&](int i) {
      for (int c = 0; c < Ways; ++c) {
        const float rstd = rows::rsqrt_fp32(s.v[c] / static_cast<float>(C) + a.eps);
        const float k = rstd * rstd * rstd * (s.v[Ways + c] / static_cast<float>(C));
        const Four dy = dy_pack(a, c, at + i), scale = load_pack<W>(a.post[c] + i);
        Four d = load_pack<W>(du + c * C + i), dscale;
        for (int w = 0; w < W; ++w) {
          dscale.v[w] = dy.v[w] * (d.v[w] * rstd);
          d.v[w] = rstd * (dy.v[w] * scale.v[w]) - k * d.v[w];
        }
        if (dpost) add_to(dpost + c * C + i, dscale);
        store_pack<W>(du + c * C + i, d);
      }
    });
  }
};

template <class T, int Ways>
struct AggregateGrad {
  static constexpr bool warp = false;
  static constexpr int sums = 2 * Ways > 4 ? 2 * Ways : 4;
  DepthAggregate<T> a;

  SATFORMER_TEAM_PROGRAM {
    const int C = a.columns, N = a.states_count;
    float* du = team.scratch;
    float* rstds = team.scratch + Ways * C;
    float* dpre = a.dpre ? a.dpre + team.index * N * C : nullptr;
    float* dpost = a.dpost ? a.dpost + team.index * Ways * C : nullptr;
    team.template each<W>(C, [&](int i) {
      for (int j = 0; dpre && j < N; ++j) store_pack<W>(dpre + j * C + i, Four{});
      for (int c = 0; dpost && c < Ways; ++c) store_pack<W>(dpost + c * C + i, Four{});
    });
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const int64_t at = token * C;
      const float* weights = a.weights + token * Ways * N;
      StateNorms<T, Team>{a, team}(token, rstds);
      SumGrads<T, Ways, Team>{a, team}(token, rstds, du, dpost);
      for (int j = 0; j < N; ++j) {
        const float rstd = a.has_pre ? rstds[j] : 1.0f;
        // du_c . pre_j(X_j) / rstd: the weights' gradient, and by the weights the normalised state's along the state.
        const auto dots = team.template sum<Ways, W>(C, [&](int i, float(&part)[Ways]) {
          const Four x = scaled_state(a, j, at, i);
          for (int c = 0; c < Ways; ++c) {
            const Four d = load_pack<W>(du + c * C + i);
            for (int w = 0; w < W; ++w) part[c] += d.v[w] * x.v[w];
          }
        });
        if (a.dweights) {
          team.once([&] {
            for (int c = 0; c < Ways; ++c) a.dweights[(token * Ways + c) * N + j] = dots.v[c] * rstd;
          });
        }
        T* dx = a.dstates[j] ? a.dstates[j] + at : nullptr;
        if (!dx && !dpre) continue;
        float along = 0.0f;
        for (int c = 0; c < Ways; ++c) along += weights[c * N + j] * dots.v[c];
        const float k = a.has_pre ? rstd * rstd * rstd * (along / static_cast<float>(C)) : 0.0f;
        team.template each<W>(C, [&](int i) {
          Four dn{};
          for (int c = 0; c < Ways; ++c) {
            const Four d = load_pack<W>(du + c * C + i);
            for (int w = 0; w < W; ++w) dn.v[w] += weights[c * N + j] * d.v[w];
          }
          if (a.has_pre) {
            const Four x = load_pack<W>(a.states[j] + at + i), scale = load_pack<W>(a.pre[j] + i);
            Four dscale;
            for (int w = 0; w < W; ++w) {
              dscale.v[w] = dn.v[w] * (x.v[w] * rstd);
              dn.v[w] = rstd * (dn.v[w] * scale.v[w]) - k * x.v[w];
            }
            if (dpre) add_to(dpre + j * C + i, dscale);
          }
          if (!dx) return;
          if (a.has_post && j == N - 1) {
            for (int c = 0; c < Ways; ++c) {
              const Four dy = dy_pack(a, c, at + i);
              for (int w = 0; w < W; ++w) dn.v[w] += dy.v[w];
            }
          }
          store_pack<W>(dx + i, dn);
        });
      }
    }
  }
};

// One pack per thread where there are threads enough.
int threads_of(int columns) { return threads_for(2 * static_cast<int64_t>(columns), W); }

}  // namespace

template <class T>
void depth_aggregate(const Where& where, const DepthAggregate<T>& a) {
  const Grid grid{a.tokens, threads_of(a.columns), scratch_of(a)};
  a.ways == 1 ? launch(where, grid, Aggregate<T, 1>{a}) : launch(where, grid, Aggregate<T, 4>{a});
}

template <class T>
void depth_aggregate_grad(const Where& where, const DepthAggregate<T>& a) {
  const Grid grid{a.dpre || a.dpost ? depth_blocks : a.tokens, threads_of(a.columns), scratch_of(a)};
  a.ways == 1 ? launch(where, grid, AggregateGrad<T, 1>{a}) : launch(where, grid, AggregateGrad<T, 4>{a});
}

template void depth_aggregate(const Where&, const DepthAggregate<float>&);
template void depth_aggregate(const Where&, const DepthAggregate<rows::bf16>&);
template void depth_aggregate_grad(const Where&, const DepthAggregate<float>&);
template void depth_aggregate_grad(const Where&, const DepthAggregate<rows::bf16>&);

}  // namespace satformer::gpu
