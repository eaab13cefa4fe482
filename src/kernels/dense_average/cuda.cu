#include "kernels/dense_average/cuda.h"

#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

template <class T, int W>
struct Average {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  DenseAverage<T> a;

  SATFORMER_TEAM_PROGRAM {
    const Piece piece(team.index, a.count);
    team.template each<W>(piece.size, [&](int i) {
      Pack<W> sum{};
      for (int j = 0; j < a.states_count; ++j) {
        const float weight = a.weights[j];
        const Pack<W> x = load_pack<W>(a.states[j] + piece.begin + i);
        for (int w = 0; w < W; ++w) sum.v[w] += weight * x.v[w];
      }
      store_pack<W>(a.out + piece.begin + i, sum);
    });
  }
};

// A team takes its pieces state group by state group; its dots of a group are whole when the group ends.
template <class T, int W>
struct AverageGrad {
  static constexpr bool warp = false;
  static constexpr int group = 4;
  static constexpr int sums = group;
  DenseAverage<T> a;

  SATFORMER_TEAM_PROGRAM {
    for (int first = 0; first < a.states_count; first += group) {
      const int states = a.states_count - first < group ? a.states_count - first : group;
      Sums<group> dots;
      for (int64_t index = team.index; index * piece_elements < a.count; index += team.count) {
        const Piece piece(index, a.count);
        const auto s = team.template sum<group, W>(piece.size, [&](int i, float(&part)[group]) {
          const Pack<W> dy = load_pack<W>(a.dy + piece.begin + i);
          for (int g = 0; g < group; ++g) {
            if (g >= states) break;
            const int j = first + g;
            if (a.dstates[j]) {
              Pack<W> dx;
              for (int w = 0; w < W; ++w) dx.v[w] = a.weights[j] * dy.v[w];
              store_pack<W>(a.dstates[j] + piece.begin + i, dx);
            }
            if (!a.dots) continue;
            const Pack<W> x = load_pack<W>(a.states[j] + piece.begin + i);
            for (int w = 0; w < W; ++w) part[g] += dy.v[w] * x.v[w];
          }
        });
        for (int g = 0; g < group; ++g) dots.v[g] += s.v[g];
      }
      if (!a.dots) continue;
      team.once([&] {
        for (int g = 0; g < states; ++g) a.dots[team.index * a.states_count + first + g] = dots.v[g];
      });
    }
  }
};

}  // namespace

template <class T>
void dense_average(const Where& where, const DenseAverage<T>& args) {
  const Grid grid = pieces(args.count);
  args.packs ? launch(where, grid, Average<T, 4>{args}) : launch(where, grid, Average<T, 1>{args});
}

template <class T>
void dense_average_grad(const Where& where, const DenseAverage<T>& args) {
  Grid grid = pieces(args.count);
  if (args.dots) grid.teams = partial_blocks;
  args.packs ? launch(where, grid, AverageGrad<T, 4>{args}) : launch(where, grid, AverageGrad<T, 1>{args});
}

template void dense_average(const Where&, const DenseAverage<float>&);
template void dense_average(const Where&, const DenseAverage<rows::bf16>&);
template void dense_average_grad(const Where&, const DenseAverage<float>&);
template void dense_average_grad(const Where&, const DenseAverage<rows::bf16>&);

}  // namespace satformer::gpu
