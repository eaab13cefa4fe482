#include "kernels/swiglu/cuda.h"

#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

template <class T, int W>
struct Product {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  Swiglu<T> a;

  SATFORMER_TEAM_PROGRAM {
    const Piece piece(team.index, a.count);
    team.template each<W>(piece.size, [&](int i) {
      const int64_t at = piece.begin + i;
      const Pack<W> gate = load_pack<W>(a.gate + at), up = load_pack<W>(a.up + at);
      Pack<W> y;
      for (int w = 0; w < W; ++w) y.v[w] = gate.v[w] * rows::sigmoid_fp32(gate.v[w]) * up.v[w];
      store_pack<W>(a.y + at, y);
    });
  }
};

template <class T, int W>
struct ProductGrad {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  SwigluGrad<T> a;

  SATFORMER_TEAM_PROGRAM {
    const Piece piece(team.index, a.count);
    team.template each<W>(piece.size, [&](int i) {
      const int64_t at = piece.begin + i;
      const Pack<W> gate = load_pack<W>(a.gate + at), up = load_pack<W>(a.up + at), dy = load_pack<W>(a.dy + at);
      Pack<W> dgate, dup, product;
      for (int w = 0; w < W; ++w) {
        const float g = gate.v[w], s = rows::sigmoid_fp32(g);
        product.v[w] = g * s * up.v[w];
        dgate.v[w] = dy.v[w] * up.v[w] * (s * (1.0f + g * (1.0f - s)));
        dup.v[w] = dy.v[w] * (g * s);
      }
      if (a.product) store_pack<W>(a.product + at, product);
      store_pack<W>(a.dgate + at, dgate);
      store_pack<W>(a.dup + at, dup);
    });
  }
};

}  // namespace

template <class T>
void swiglu(const Where& where, const Swiglu<T>& args) {
  const Grid grid = pieces(args.count);
  args.packs ? launch(where, grid, Product<T, 4>{args}) : launch(where, grid, Product<T, 1>{args});
}

template <class T>
void swiglu_grad(const Where& where, const SwigluGrad<T>& args) {
  const Grid grid = pieces(args.count);
  args.packs ? launch(where, grid, ProductGrad<T, 4>{args}) : launch(where, grid, ProductGrad<T, 1>{args});
}

template void swiglu(const Where&, const Swiglu<float>&);
template void swiglu(const Where&, const Swiglu<rows::bf16>&);
template void swiglu_grad(const Where&, const SwigluGrad<float>&);
template void swiglu_grad(const Where&, const SwigluGrad<rows::bf16>&);

}  // namespace satformer::gpu
