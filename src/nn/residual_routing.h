// What a sublayer reads and how its output is absorbed. A routing owns the norms before its sublayers and any depth
// mixing; it knows nothing of attention, values or the cache.
#pragma once

#include "kernels/tensor.h"

#include <memory>
#include <optional>
#include <vector>

#include "nn/compute_weights.h"
#include "nn/model_config.h"
#include "nn/parameters.h"

namespace satformer {

class Norm;

// The streams of one forward pass. `carried` crosses layers and its meaning is the routing's own (one stream; four
// streams and the history; hyper streams); `local` lives between reading and absorbing within one sublayer.
struct StreamState {
  std::vector<at::Tensor> carried;
  std::vector<at::Tensor> local;
};

// Normalised inputs of an attention sublayer [B, T, C]. Routings with one stream give the same tensor three times;
// with a stream for values alone, v is undefined where the layer projects none (ModelConfig::projects_values).
struct AttentionInput {
  at::Tensor q, k, v;
};

// The norms in front of a layer's sublayers where one stream is all there is: x = x + sublayer(norm(x)).
struct PlainNorms {
  const Norm *attention, *mlp;
};

class ResidualRouting {
 public:
  virtual ~ResidualRouting() = default;
  virtual StreamState begin(const at::Tensor& embedding_BTC) const = 0;
  virtual AttentionInput attention_input(std::int64_t layer, StreamState& state, ComputeWeights& weights) const = 0;
  virtual void absorb_attention(std::int64_t layer, StreamState& state, const at::Tensor& output_BTC) const = 0;
  virtual at::Tensor mlp_input(std::int64_t layer, StreamState& state, ComputeWeights& weights) const = 0;
  virtual void absorb_mlp(std::int64_t layer, StreamState& state, const at::Tensor& output_BTC,
                          ComputeWeights& weights) const = 0;
  virtual at::Tensor finish(StreamState& state) const = 0;             // what the final norm reads
  virtual at::Tensor main_stream(const StreamState& state) const = 0;  // for observers, between layers
  virtual std::optional<PlainNorms> plain_norms(std::int64_t layer) const {
    (void)layer;
    return std::nullopt;
  }
  // Factor on the initial standard deviation of the sublayers' output projections.
  virtual double output_init_scale() const { return 1.0; }
};

// Builds the routing that `config.residual_routing` names; its parameters join `store` under the authors' names.
std::unique_ptr<ResidualRouting> make_residual_routing(const ModelConfig& config, ParameterStore& store);

}  // namespace satformer
