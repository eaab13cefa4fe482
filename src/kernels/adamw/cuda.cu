#include "kernels/adamw/cuda.h"

#include "kernels/adamw/math.h"
#include "kernels/gpu/launch.h"

namespace satformer::gpu {
namespace {

// Where a team's piece lies.
struct TensorPiece {
  int tensor;
  Piece piece;
};
SATFORMER_HD TensorPiece piece_of(const Batch& batch, int64_t index) {
  int tensor = 0;
  while (index >= batch.first_piece[tensor + 1]) ++tensor;
  return {tensor, Piece(index - batch.first_piece[tensor], batch.count[tensor])};
}

template <class T>
struct Update {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  AdamW<T> a;

  SATFORMER_TEAM_PROGRAM {
    const TensorPiece at = piece_of(a.batch, team.index);
    float* param = a.param[at.tensor] + at.piece.begin;
    const T* grad = a.grad[at.tensor] + at.piece.begin;
    float* m = a.m[at.tensor] + at.piece.begin;
    float* v = a.v[at.tensor] + at.piece.begin;
    team.template each<1>(at.piece.size,
                          [&](int i) { rows::adamw_element(a, param + i, rows::load(grad[i]), m + i, v + i); });
  }
};

template <class T>
struct Squares {
  static constexpr bool warp = false;
  static constexpr int sums = 1;
  SumOfSquares<T> a;

  SATFORMER_TEAM_PROGRAM {
    const TensorPiece at = piece_of(a.batch, team.index);
    const T* x = a.x[at.tensor] + at.piece.begin;
    const auto total = team.template sum<1, 1, double>(at.piece.size, [&](int i, double(&s)[1]) {
      const double value = static_cast<double>(rows::load(x[i]));
      s[0] += value * value;
    });
    team.once([&] { a.sums[team.index] = total.v[0]; });
  }
};

Grid grid_of(const Batch& batch) { return {batch.first_piece[batch.tensors], 256, 0}; }

}  // namespace

void add_to(Batch* batch, int64_t count) {
  const int i = batch->tensors++;
  batch->count[i] = count;
  batch->first_piece[i + 1] = batch->first_piece[i] + pieces(count).teams;
}

template <class T>
void adamw(const Where& where, const AdamW<T>& args) {
  launch(where, grid_of(args.batch), Update<T>{args});
}

template <class T>
void sum_of_squares(const Where& where, const SumOfSquares<T>& args) {
  launch(where, grid_of(args.batch), Squares<T>{args});
}

template void adamw(const Where&, const AdamW<float>&);
template void adamw(const Where&, const AdamW<rows::bf16>&);
template void sum_of_squares(const Where&, const SumOfSquares<float>&);
template void sum_of_squares(const Where&, const SumOfSquares<rows::bf16>&);

}  // namespace satformer::gpu
