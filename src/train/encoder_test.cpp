// The encoder learns toy data made here, with SATFormer values and with every residual routing.
#include "nn/encoder.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "base/test_error.h"
#include "train/optimizer.h"

namespace satformer {
namespace {

ModelConfig small_stack(const std::string& routing) {
  ModelConfig c;
  c.vocab_size = 20;
  c.hidden_size = 32;
  c.num_hidden_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.intermediate_size = 48;
  c.max_position_embeddings = 16;
  c.residual_routing = routing;
  c.value_path = "satformer";
  return c;
}

struct Images {
  at::Tensor pixels, labels;
};

// Noise with one bright patch of 2 x 2; the class is the quadrant that holds it.
Images make_images(std::int64_t count, std::uint64_t seed) {
  const Philox random(seed, hash_name("images"));
  Images images{at::empty({count, 1, 8, 8}), at::empty({count}, at::kLong)};
  auto* pixels = images.pixels.mutable_data_ptr<float>();
  std::uint64_t counter = 0;
  for (std::int64_t i = 0; i < images.pixels.numel(); ++i) {
    pixels[i] = 0.3f * static_cast<float>(random.uniform(counter++) - 0.5);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto patch = static_cast<std::int64_t>(random.bits(counter++) % 16);
    const std::int64_t row = patch / 4, column = patch % 4;
    for (const std::int64_t at : {0, 1, 8, 9}) pixels[i * 64 + row * 16 + column * 2 + at] += 1;
    images.labels.mutable_data_ptr<std::int64_t>()[i] = (row / 2) * 2 + column / 2;
  }
  return images;
}

EncoderConfig image_config(const std::string& routing) {
  EncoderConfig config{.stack = small_stack(routing), .num_classes = 4};
  config.channels = 1;
  config.height = config.width = 8;
  config.patch_size = 2;
  return config;
}

double accuracy(Encoder& encoder, const Images& images) {
  const at::NoGradGuard no_grad;
  return encoder.logits(images.pixels).argmax(-1).eq(images.labels).to(at::kFloat).mean().item<double>();
}

TEST(Encoder, LearnsWhereABrightPatchStands) {
  at::set_num_threads(1);  // tensors this small are slower on more
  const Images held_out = make_images(256, 99);
  for (const char* routing : {"plain", "dense", "mudd", "hyper"}) {
    SCOPED_TRACE(routing);
    Encoder encoder(image_config(routing), at::kCPU);
    encoder.parameters().initialise(1);
    OptimizerOptions optimizer_options;
    optimizer_options.weight_decay = 0.01;
    Optimizer optimizer(encoder.parameters(), optimizer_options);
    EXPECT_LT(accuracy(encoder, held_out), 0.6);
    for (std::uint64_t step = 0; step < 300; ++step) {
      const Images batch = make_images(32, step);
      optimizer.clear_gradients();
      encoder.loss(batch.pixels, batch.labels, {}, {.recompute = step % 2 == 1}).backward();
      optimizer.step(2e-3, optimizer.gradient_norm());
    }
    EXPECT_GT(accuracy(encoder, held_out), 0.95);
  }
}

TEST(Encoder, SeesBothWaysAndIgnoresPads) {
  Encoder encoder({.stack = small_stack("plain"), .num_classes = 3}, at::kCPU);
  encoder.parameters().initialise(2);
  const at::NoGradGuard no_grad;
  at::Tensor ids = at::zeros({1, 6}, at::kLong);
  for (std::int64_t t = 0; t < 6; ++t) ids.select(1, t).fill_(3 + t);
  const at::Tensor alone = encoder.logits(ids);
  at::Tensor padded = at::zeros({1, 9}, at::kLong);
  padded.narrow(1, 3, 6).copy_(ids);
  at::Tensor valid = at::ones({1, 9}, at::kLong);
  valid.narrow(1, 0, 3).fill_(0);
  EXPECT_LT((encoder.logits(padded, valid) - alone).abs().max().item<double>(), 1e-5);
  padded.narrow(1, 0, 3).fill_(7);
  EXPECT_LT((encoder.logits(padded, valid) - alone).abs().max().item<double>(), 1e-5);

  // A state at the beginning depends on the last token: the observer sees block outputs.
  struct FirstState : LayerObserver {
    at::Tensor state;
    void block_output(std::int64_t, const at::Tensor& x) override { state = x.select(1, 0).clone(); }
  } before, after;
  encoder.logits(ids, {}, {.observer = &before});
  ids.select(1, 5).fill_(11);
  encoder.logits(ids, {}, {.observer = &after});
  EXPECT_GT((before.state - after.state).abs().max().item<double>(), 1e-6);
}

TEST(Encoder, RefusesWhatDoesNotFit) {
  EncoderConfig config = image_config("plain");
  config.patch_size = 3;
  EXPECT_NE(error_text([&] { Encoder(config, at::kCPU); }, ExitCode::config).find("8 x 8"), std::string::npos);
  config = image_config("plain");
  config.num_classes = 1;
  EXPECT_NE(error_text([&] { Encoder(config, at::kCPU); }, ExitCode::config).find("num_classes"), std::string::npos);
}

}  // namespace
}  // namespace satformer
