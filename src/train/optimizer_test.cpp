#include "train/optimizer.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace satformer {
namespace {

ParameterStore store_of_each_kind() {
  ParameterStore store{at::Device(c10::DeviceType::CPU)};
  const std::pair<const char*, ParamKind> kinds[] = {
      {"embedding", ParamKind::embedding}, {"matrix", ParamKind::matrix}, {"norm", ParamKind::norm},
      {"bias", ParamKind::bias},           {"gate", ParamKind::gate},     {"scalar", ParamKind::scalar}};
  for (const auto& [name, kind] : kinds) store.add(name, {2, 3}, Init::constant(1.0), kind, "part");
  store.initialise(0);
  return store;
}

void set_gradients(ParameterStore& store, double value) {
  for (Parameter& p : store.list()) p.value.mutable_grad() = at::full_like(p.value.detach(), value);
}

TEST(Optimizer, DecayActsOnMatricesAloneOrOnAll) {
  for (const bool all : {false, true}) {
    ParameterStore store = store_of_each_kind();
    OptimizerOptions options;
    options.decay_all = all;
    options.weight_decay = 0.5;
    Optimizer optimizer(store, options);
    set_gradients(store, 0.0);
    optimizer.step(0.1, 0.0);
    for (const Parameter& p : store.list()) {
      const bool decays = all || p.name == "embedding" || p.name == "matrix";
      EXPECT_NEAR(p.value.detach().max().item<double>(), decays ? 0.95 : 1.0, 1e-6) << p.name;
    }
  }
}

TEST(Optimizer, GatesAndScalarsHaveRatesAndDecaysOfTheirOwn) {
  ParameterStore store = store_of_each_kind();
  OptimizerOptions options;
  options.decay_all = true;
  options.weight_decay = 0.5;
  options.gate_lr_scale = 0.25;
  options.scalar_lr_scale = 2;
  options.scalar_decay = 0.1;
  Optimizer optimizer(store, options);
  set_gradients(store, 1.0);
  optimizer.step(0.1, 0.0);
  for (const Parameter& p : store.list()) {
    // First step of Adam: the rate itself, after the decay of rate times decay.
    const double expected = p.name == "gate"     ? 1 - 0.025 * 0.5 - 0.025
                            : p.name == "scalar" ? 1 - 0.2 * 0.1 - 0.2
                                                 : 1 - 0.1 * 0.5 - 0.1;
    EXPECT_NEAR(p.value.detach().max().item<double>(), expected, 1e-6) << p.name;
  }
}

TEST(Optimizer, ARateOfZeroFreezesAndADecayOfZeroSpares) {
  ParameterStore store = store_of_each_kind();
  OptimizerOptions options;
  options.decay_all = true;
  options.weight_decay = 0.5;
  options.gate_lr_scale = 0;
  options.scalar_decay = 0.0;
  Optimizer optimizer(store, options);
  set_gradients(store, 0.0);
  optimizer.step(0.1, 0.0);
  for (const Parameter& p : store.list()) {
    const bool stays = p.name == "gate" || p.name == "scalar";
    EXPECT_NEAR(p.value.detach().max().item<double>(), stays ? 1.0 : 0.95, 1e-6) << p.name;
  }
}

TEST(Optimizer, ClipsByTheGlobalNorm) {
  ParameterStore store = store_of_each_kind();
  OptimizerOptions options;
  options.weight_decay = 0;
  options.grad_clip = 1.0;
  Optimizer optimizer(store, options);
  set_gradients(store, 2.0);
  const double norm = optimizer.gradient_norm();
  EXPECT_NEAR(norm, 2.0 * std::sqrt(36.0), 1e-6);
  optimizer.step(0.1, norm);
  const double clipped = 2.0 / (norm + 1e-6);
  EXPECT_NEAR(optimizer.moments()[0].value.max().item<double>(), 0.1 * clipped, 1e-7);
  // First step of Adam: the rate itself, whatever the scale.
  EXPECT_NEAR(store.list()[0].value.detach().max().item<double>(), 0.9, 1e-5);
}

TEST(Optimizer, NamesWhatIsNotFinite) {
  ParameterStore store = store_of_each_kind();
  Optimizer optimizer(store, {});
  set_gradients(store, 1.0);
  store.list()[2].value.mutable_grad().fill_(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(std::isfinite(optimizer.gradient_norm()));
  EXPECT_EQ(optimizer.non_finite_gradients(3), std::vector<std::string>{"norm"});
}

TEST(Optimizer, ParametersWithoutGradientStay) {
  ParameterStore store = store_of_each_kind();
  Optimizer optimizer(store, {});
  set_gradients(store, 1.0);
  store.list()[1].value.mutable_grad().reset();
  optimizer.step(0.1, 1.0);
  EXPECT_EQ(store.list()[1].value.detach().min().item<double>(), 1.0);
  optimizer.clear_gradients();
  for (const Parameter& p : store.list()) EXPECT_FALSE(p.value.grad().defined());
}

}  // namespace
}  // namespace satformer
