// What the streams between layers tell: of the next token (logit lens) and of the token that was read (identity).
#pragma once

#include <vector>

#include "nn/model.h"
#include "nn/norm.h"

namespace satformer {

// Loss of the model's own final norm and head on each block's output.
class LogitLens : public LayerObserver {
 public:
  explicit LogitLens(const Model& model);
  void begin(const at::Tensor& targets_BT) { targets_ = targets_BT.flatten(); }  // before each pass
  void block_output(std::int64_t layer, const at::Tensor& x_BTC) override;

  struct Layer {
    double loss = 0;      // mean over targets, nats
    double accuracy = 0;  // share of targets with the largest logit
  };
  std::vector<Layer> layers() const;

 private:
  struct Sums {
    double loss = 0, hits = 0, targets = 0;
  };
  Norm norm_;
  at::Tensor head_;
  at::ScalarType dtype_;
  at::Tensor targets_;
  std::vector<Sums> sums_;
};

// How well each block's output tells the input token: a ridge regression from the output to the token's embedding,
//   W = argmin sum |E[token] - W [x, 1]|^2 + lambda |W|^2,   lambda = 1e-4 tr(X^T X) / (C + 1),
// fitted on some rows; on others the token is the one whose embedding is nearest to the prediction.
class IdentityProbe : public LayerObserver {
 public:
  explicit IdentityProbe(const Model& model);
  void begin(const at::Tensor& ids_BT) { ids_ = ids_BT.flatten(); }  // before each pass
  void end_fit();  // solves; passes from now on are tested. Error(internal) without a fitted pass
  void block_output(std::int64_t layer, const at::Tensor& x_BTC) override;

  struct Layer {
    double accuracy = 0;   // share of tokens found
    double explained = 0;  // 1 - sum |E - prediction|^2 / sum |E - mean E|^2, over the tested tokens
  };
  std::vector<Layer> layers() const;

 private:
  struct State {
    at::Tensor xx, xy;   // [C + 1, C + 1], [C + 1, C], fp64
    at::Tensor weights;  // [C + 1, C], fp32
    double hits = 0, tokens = 0, residual = 0, square = 0;
    at::Tensor sum_C;  // of the tested embeddings, fp64
  };
  at::Tensor embedding_, half_square_V_;
  at::Tensor ids_;
  bool fitted_ = false;
  std::vector<State> states_;
};

}  // namespace satformer
