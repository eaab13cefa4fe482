// A bidirectional encoder with a classification head, over tokens or over the patches of images. Its blocks are a
// decoder's: every residual routing and value path works in it.
#pragma once

#include <memory>

#include "nn/layer_stack.h"

namespace satformer {

struct EncoderConfig {
  ModelConfig
      stack;  // vocab_size is read for tokens only; max_position_embeddings follows from the patches of images
  std::int64_t num_classes = 2;
  // Images of channels x height x width in square patches; channels = 0: tokens.
  std::int64_t channels = 0, height = 0, width = 0, patch_size = 0;

  bool images() const { return channels > 0; }
  std::int64_t num_patches() const { return (height / patch_size) * (width / patch_size); }
  // Error(config): what ModelConfig::validate() says, fewer than two classes, patches that do not divide the image.
  void validate() const;
};

class Encoder {
 public:
  Encoder(const EncoderConfig& config, at::Device device);

  const EncoderConfig& config() const { return config_; }
  ParameterStore& parameters() { return store_; }
  void set_compute_dtype(at::ScalarType dtype) { weights_ = ComputeWeights(dtype); }

  // input: ids [B, T] int64, or images [B, channels, height, width]. valid_BT (tokens): 1 = token, 0 = pad,
  // undefined: no pads. Returns fp32 [B, num_classes] from the mean of the final states over tokens or patches.
  at::Tensor logits(const at::Tensor& input, const at::Tensor& valid_BT = {},
                    const LayerStack::Options& options = {});
  // Mean cross-entropy of labels [B] int64.
  at::Tensor loss(const at::Tensor& input, const at::Tensor& labels_B, const at::Tensor& valid_BT = {},
                  const LayerStack::Options& options = {});

 private:
  at::Tensor embed(const at::Tensor& input);

  EncoderConfig config_;
  ParameterStore store_;
  ComputeWeights weights_;
  at::Tensor embedding_;                                // tokens
  at::Tensor patch_weight_, patch_bias_, position_NC_;  // images
  std::unique_ptr<LayerStack> stack_;
  at::Tensor class_weight_, class_bias_;
};

}  // namespace satformer
