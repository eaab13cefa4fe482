// Blocks and the final norm: what a decoder and an encoder have in common. The config chooses residual routing and
// value path; the pass chooses mask, positions and cache.
#pragma once

#include <memory>
#include <vector>

#include "nn/attention_layer.h"
#include "nn/norm.h"

namespace satformer {

class LayerStack {
 public:
  // Adds the parameters of all layers to `store`, then the final norm's.
  LayerStack(const ModelConfig& config, ParameterStore& store);

  struct Options {
    LayerObserver* observer = nullptr;  // with recompute it may watch but not replace
    bool recompute = false;             // gradient checkpointing: keep only what crosses layers
  };
  // embedded [B, T, C] in the type of `weights`; returns final normalised states [B, T, C]. `pass.rope` is set here.
  at::Tensor forward(const at::Tensor& embedded_BTC, PassContext pass, ComputeWeights& weights,
                     const Options& options);

 private:
  // What decode() needs for this pass; empty if it is another kind of pass or a layer has what decode() does not
  // know.
  std::optional<DecodePass> decode_pass(const at::Tensor& embedded_BTC, const PassContext& pass,
                                        ComputeWeights& weights, const Options& options) const;
  void run_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                 ComputeWeights& weights, LayerObserver* observer) const;
  void recompute_layer(std::int64_t layer, StreamState& streams, ValueState& values, const PassContext& pass,
                       ComputeWeights& weights, LayerObserver* observer) const;

  ModelConfig config_;
  at::Device device_;
  std::unique_ptr<ResidualRouting> routing_;
  std::unique_ptr<ValuePath> value_path_;
  std::vector<AttentionLayer> attention_;
  std::vector<MlpLayer> mlp_;
  std::unique_ptr<Norm> norm_;
  RopeTable rope_;
};

}  // namespace satformer
