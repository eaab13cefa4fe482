// The decoder: embedding, blocks, final norm and head. An architecture is a residual routing and a value path put
// into this stack (see models/registry.h, which builds one from its name).
#pragma once

#include "kernels/linear/packed.h"
#include "kernels/tensor.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/kv_cache.h"
#include "nn/model_config.h"
#include "nn/observer.h"
#include "nn/parameters.h"

namespace satformer {

struct ForwardOptions {
  at::Tensor
      attention_mask_BT;     // 1 = token, 0 = pad (left or right); undefined: no pads. Without a cache or with one
  KvCache* cache = nullptr;  // appended to
  LayerObserver* observer = nullptr;  // with recompute_layers it may watch but not replace
  bool recompute_layers = false;      // gradient checkpointing: keep only what crosses layers
  std::int64_t logits_to_keep = 0;    // logits(): only the last n positions; 0 keeps all
  // A document ends with this id: attention, positions and running means of gates start anew after it, so that each
  // document gets what it would get alone. Not with a cache or a mask.
  std::optional<std::int64_t> document_end = {};
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelConfig& config() const = 0;
  virtual const std::string& architecture() const = 0;  // registry name, "satformer"
  virtual ParameterStore& parameters() = 0;
  virtual const ParameterStore& parameters() const = 0;

  // Computes in this type (float32, bfloat16) from fp32 parameters, which are cast in each forward; without autograd
  // the casts are kept until a parameter changes.
  virtual void set_compute_dtype(at::ScalarType dtype) = 0;
  virtual at::ScalarType compute_dtype() const = 0;

  // The projections of attention and feed-forward and the head in 8 or 4 bits from now on, without gradients; the
  // parameters of these matrices read as NaN, except for an embedding that is the head too. Error(usage) if the model
  // is not on the CPU.
  virtual void quantise_weights(WeightFormat format) = 0;

  // ids [B, T] int64. Final normalised states [B, T, C]. Error(config) if positions pass max_position_embeddings.
  virtual at::Tensor hidden(const at::Tensor& ids_BT, const ForwardOptions& options) = 0;
  virtual at::Tensor logits(const at::Tensor& ids_BT, const ForwardOptions& options) = 0;  // fp32 [B, T, V]
  virtual at::Tensor head(const at::Tensor& hidden_NC) = 0;  // fp32 logits [N, V] of what hidden() gave
  // scale * summed cross-entropy of targets [B, T] (already aligned with ids: targets[t] is what follows ids[t];
  // -100 is ignored). Differentiable fp32 scalar.
  virtual at::Tensor loss(const at::Tensor& ids_BT, const at::Tensor& targets_BT, double scale,
                          const ForwardOptions& options) = 0;
  // Loss of each target, fp32 [B, T], without gradient; `greedy` as in linear_cross_entropy.h.
  virtual at::Tensor losses(const at::Tensor& ids_BT, const at::Tensor& targets_BT, const ForwardOptions& options,
                            at::Tensor* greedy = nullptr) = 0;
};

// Allocates a decoder of `config`'s routing and value path; parameters are not initialised. See models/registry.h.
std::unique_ptr<Model> make_decoder(const std::string& architecture, const ModelConfig& config, at::Device device);

}  // namespace satformer
