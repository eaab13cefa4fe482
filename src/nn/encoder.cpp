#include "nn/encoder.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include "base/error.h"

namespace satformer {
namespace {

EncoderConfig checked(EncoderConfig config) {
  config.validate();
  if (config.images()) config.stack.max_position_embeddings = config.num_patches();
  return config;
}

// [B, channels, height, width] to [B, patches, channels * patch_size^2], row by row.
at::Tensor patches(const at::Tensor& images, const EncoderConfig& c) {
  const std::int64_t B = images.size(0), p = c.patch_size, rows = c.height / p, columns = c.width / p;
  return images.reshape({B, c.channels, rows, p, columns, p})
      .permute({0, 2, 4, 1, 3, 5})
      .reshape({B, rows * columns, c.channels * p * p});
}

}  // namespace

void EncoderConfig::validate() const {
  stack.validate();
  if (!images() && stack.position_type != "rotary") {
    fail(ExitCode::config, "an encoder of tokens has rotary positions, not '", stack.position_type, "' ones");
  }
  if (num_classes < 2) fail(ExitCode::config, "num_classes = ", num_classes, " must be at least 2");
  if (!images()) return;
  if (patch_size < 1 || height < 1 || width < 1 || height % patch_size != 0 || width % patch_size != 0) {
    fail(ExitCode::config, "images of ", height, " x ", width, " are not divided by patches of ", patch_size, " x ",
         patch_size);
  }
}

Encoder::Encoder(const EncoderConfig& config, at::Device device)
    : config_(checked(config)), store_(device), weights_(at::kFloat) {
  const std::int64_t C = config_.stack.hidden_size;
  const Init normal = Init::normal(config_.stack.initializer_range), zero = Init::constant(0);
  if (config_.images()) {
    const std::int64_t inputs = config_.channels * config_.patch_size * config_.patch_size;
    patch_weight_ = store_.add("model.patch_embed.weight", {C, inputs}, normal, ParamKind::matrix, "embedding");
    patch_bias_ = store_.add("model.patch_embed.bias", {C}, zero, ParamKind::bias, "embedding");
    position_NC_ = store_.add("model.position_embed.weight", {config_.num_patches(), C}, normal, ParamKind::embedding,
                              "embedding");
  } else {
    embedding_ = store_.add("model.embeddings.weight", {config_.stack.vocab_size, C}, normal, ParamKind::embedding,
                            "embedding");
  }
  stack_ = std::make_unique<LayerStack>(config_.stack, store_);
  class_weight_ = store_.add("classifier.weight", {config_.num_classes, C}, normal, ParamKind::matrix, "head");
  class_bias_ = store_.add("classifier.bias", {config_.num_classes}, zero, ParamKind::bias, "head");
}

at::Tensor Encoder::embed(const at::Tensor& input) {
  if (!config_.images()) {
    if (input.dim() != 2 || input.scalar_type() != at::kLong) {
      fail(ExitCode::internal, "an encoder of tokens reads ids [batch, time] of type int64");
    }
    if (input.size(1) > config_.stack.max_position_embeddings) {
      fail(ExitCode::config, "a text of ", input.size(1),
           " tokens is longer than the model's max_position_embeddings of ", config_.stack.max_position_embeddings);
    }
    return at::embedding(embedding_, input).to(weights_.dtype());
  }
  if (input.dim() != 4 || input.size(1) != config_.channels || input.size(2) != config_.height ||
      input.size(3) != config_.width) {
    fail(ExitCode::internal, "the encoder reads images [batch, ", config_.channels, ", ", config_.height, ", ",
         config_.width, "]");
  }
  const at::Tensor pixels = patches(input, config_).to(weights_.dtype());
  return at::linear(pixels, weights_(patch_weight_), weights_(patch_bias_)) + weights_(position_NC_);
}

at::Tensor Encoder::logits(const at::Tensor& input, const at::Tensor& valid_BT, const LayerStack::Options& options) {
  PassContext pass;
  pass.mask.kind = MaskKind::bidirectional;
  if (valid_BT.defined()) {
    if (config_.images() || valid_BT.sizes() != input.sizes()) {
      fail(ExitCode::internal, "the mask of pads must have the shape of the token ids");
    }
    pass.query_valid_BT = valid_BT.ne(0);
    pass.mask.key_valid_BS = pass.query_valid_BT;
    pass.positions_BT = (at::cumsum(pass.query_valid_BT.to(at::kLong), 1) - 1).clamp_min(0);
  }
  const at::Tensor states = stack_->forward(embed(input), pass, weights_, options).to(at::kFloat);
  at::Tensor mean = states.mean(1);
  if (valid_BT.defined()) {
    const at::Tensor share = pass.query_valid_BT.to(at::kFloat).unsqueeze(-1);
    mean = (states * share).sum(1) / share.sum(1).clamp_min(1);
  }
  return at::linear(mean, class_weight_.to(at::kFloat), class_bias_.to(at::kFloat));
}

at::Tensor Encoder::loss(const at::Tensor& input, const at::Tensor& labels_B, const at::Tensor& valid_BT,
                         const LayerStack::Options& options) {
  return at::cross_entropy_loss(logits(input, valid_BT, options), labels_B);
}

}  // namespace satformer
