#include "kernels/value_gate/cuda.h"

#include "kernels/gpu/launch.h"
#include "kernels/value_gate/math.h"

namespace satformer::gpu {
namespace {

// What a gate over heads needs to know of its token.
struct HeadTotals {
  float largest, total;
};

template <class Team>
struct HeadTotalsOf {
  Team& team;
  SATFORMER_NO_SIDE_CHECK SATFORMER_HD_MEMBER HeadTotals operator()(int gate, const float* logits, int heads) const {
    if (!rows::over_heads(gate)) return {0.0f, 0.0f};
    const float largest = team.max(heads, [&](int h) { return logits[h]; });
    const auto total =
        team.template sum<1, 1>(heads, [&](int h, float(&s)[1]) { s[0] += rows::exp_fp32(logits[h] - largest); });
    return {largest, total.v[0]};
  }
};

template <class T, int W>
struct GateTokens {
  static constexpr bool warp = true;
  ValueGate<T> a;

  SATFORMER_TEAM_PROGRAM {
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const float* logits = a.logits + token * a.heads;
      const HeadTotals totals = HeadTotalsOf<Team>{team}(a.gate, logits, a.heads);
      for (int h = 0; h < a.heads; ++h) {
        // As the reference does, the gate is rounded to the values' type.
        const float alpha =
            rows::rounded_to<T>(rows::gate_value(a.gate, logits[h], totals.largest, totals.total, a.heads));
        const int64_t at = (token * a.heads + h) * a.head_dim;
        team.template each<W>(a.head_dim, [&](int i) {
          Pack<W> v = load_pack<W>(a.v + at + i);
          const Pack<W> v1 = load_pack<W>(a.v1 + at + i);
          for (int w = 0; w < W; ++w) v.v[w] += alpha * v1.v[w];
          store_pack<W>(a.out + at + i, v);
        });
      }
    }
  }
};

// dy . V1 of a head.
template <class T, int W, class Team>
struct HeadDot {
  const ValueGate<T>& a;
  Team& team;
  int64_t token;
  SATFORMER_NO_SIDE_CHECK SATFORMER_HD_MEMBER float operator()(int h) const {
    const int64_t at = (token * a.heads + h) * a.head_dim;
    const auto dot = team.template sum<1, W>(a.head_dim, [&](int i, float(&s)[1]) {
      const Pack<W> dy = load_pack<W>(a.dy + at + i), v1 = load_pack<W>(a.v1 + at + i);
      for (int w = 0; w < W; ++w) s[0] += dy.v[w] * v1.v[w];
    });
    return dot.v[0];
  }
};

template <class T, int W>
struct GateTokensGrad {
  static constexpr bool warp = true;
  ValueGate<T> a;

  SATFORMER_TEAM_PROGRAM {
    for (int64_t token = team.index; token < a.tokens; token += team.count) {
      const float* logits = a.logits + token * a.heads;
      const HeadTotals totals = HeadTotalsOf<Team>{team}(a.gate, logits, a.heads);
      const auto alpha_of = [&](int h) {
        return rows::gate_value(a.gate, logits[h], totals.largest, totals.total, a.heads);
      };
      const HeadDot<T, W, Team> dot_of{a, team, token};
      float mean = 0.0f;
      if (a.dlogits && rows::over_heads(a.gate)) {
        for (int h = 0; h < a.heads; ++h) mean += dot_of(h) * alpha_of(h);
        mean /= static_cast<float>(a.heads);
      }
      for (int h = 0; h < a.heads; ++h) {
        const float alpha = alpha_of(h);
        if (a.dlogits) {
          const float d = dot_of(h);
          team.once(
              [&] { a.dlogits[token * a.heads + h] = rows::gate_value_grad(a.gate, logits[h], alpha, d, mean); });
        }
        if (a.dv1) {
          const int64_t at = (token * a.heads + h) * a.head_dim;
          const float rounded = rows::rounded_to<T>(alpha);
          team.template each<W>(a.head_dim, [&](int i) {
            Pack<W> d = load_pack<W>(a.dy + at + i);
            for (int w = 0; w < W; ++w) d.v[w] *= rounded;
            store_pack<W>(a.dv1 + at + i, d);
          });
        }
      }
    }
  }
};

template <class T, int W>
struct Mix {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  StaticMix<T> a;

  SATFORMER_TEAM_PROGRAM {
    const Piece piece(team.index, a.count);
    const float l1 = *a.lambda1, l2 = *a.lambda2;
    team.template each<W>(piece.size, [&](int i) {
      const Pack<W> v1 = load_pack<W>(a.v1 + piece.begin + i);
      Pack<W> v = load_pack<W>(a.v + piece.begin + i);
      for (int w = 0; w < W; ++w) v.v[w] = l1 * v1.v[w] + l2 * v.v[w];
      store_pack<W>(a.out + piece.begin + i, v);
    });
  }
};

template <class T, int W>
struct MixGrad {
  static constexpr bool warp = false;
  static constexpr int sums = 2;
  StaticMix<T> a;

  SATFORMER_TEAM_PROGRAM {
    const float l1 = *a.lambda1, l2 = *a.lambda2;
    float dot1 = 0.0f, dot2 = 0.0f;
    for (int64_t index = team.index; index * piece_elements < a.count; index += team.count) {
      const Piece piece(index, a.count);
      const auto s = team.template sum<2, W>(piece.size, [&](int i, float(&part)[2]) {
        const int64_t at = piece.begin + i;
        const Pack<W> dy = load_pack<W>(a.dy + at);
        Pack<W> dv, dv1;
        for (int w = 0; w < W; ++w) {
          dv.v[w] = l2 * dy.v[w];
          dv1.v[w] = l1 * dy.v[w];
        }
        if (a.dv) store_pack<W>(a.dv + at, dv);
        if (a.dv1) store_pack<W>(a.dv1 + at, dv1);
        if (!a.dots) return;
        const Pack<W> v = load_pack<W>(a.v + at), v1 = load_pack<W>(a.v1 + at);
        for (int w = 0; w < W; ++w) {
          part[0] += dy.v[w] * v1.v[w];
          part[1] += dy.v[w] * v.v[w];
        }
      });
      dot1 += s.v[0];
      dot2 += s.v[1];
    }
    if (!a.dots) return;
    team.once([&] {
      a.dots[2 * team.index] = dot1;
      a.dots[2 * team.index + 1] = dot2;
    });
  }
};

}  // namespace

template <class T>
void value_gate(const Where& where, const ValueGate<T>& args) {
  const Grid grid{args.tokens, warp_size, 0};
  args.packs ? launch(where, grid, GateTokens<T, 2>{args}) : launch(where, grid, GateTokens<T, 1>{args});
}

template <class T>
void value_gate_grad(const Where& where, const ValueGate<T>& args) {
  const Grid grid{args.tokens, warp_size, 0};
  args.packs ? launch(where, grid, GateTokensGrad<T, 2>{args}) : launch(where, grid, GateTokensGrad<T, 1>{args});
}

template <class T>
void static_mix(const Where& where, const StaticMix<T>& args) {
  const Grid grid = pieces(args.count);
  args.packs ? launch(where, grid, Mix<T, 4>{args}) : launch(where, grid, Mix<T, 1>{args});
}

template <class T>
void static_mix_grad(const Where& where, const StaticMix<T>& args) {
  Grid grid = pieces(args.count);
  if (args.dots) grid.teams = partial_blocks;
  args.packs ? launch(where, grid, MixGrad<T, 4>{args}) : launch(where, grid, MixGrad<T, 1>{args});
}

#define SATFORMER_FOR(T)                                            \
  template void value_gate(const Where&, const ValueGate<T>&);      \
  template void value_gate_grad(const Where&, const ValueGate<T>&); \
  template void static_mix(const Where&, const StaticMix<T>&);      \
  template void static_mix_grad(const Where&, const StaticMix<T>&);
SATFORMER_FOR(float)
SATFORMER_FOR(rows::bf16)
#undef SATFORMER_FOR

}  // namespace satformer::gpu
