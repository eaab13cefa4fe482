#include "kernels/adamw/adamw.h"

#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/isa.h"
#include "kernels/op_check.h"

namespace satformer {
namespace {

using testing::expect_near;
using testing::random_tensor;

const std::vector<std::vector<std::int64_t>> shapes = {{3, 5}, {1}, {0}, {70000}, {17}};

AdamWTensors make_state(at::ScalarType grad_type) {
  AdamWTensors t;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    t.params.push_back(random_tensor(shapes[i], i));
    t.grads.push_back(random_tensor(shapes[i], 20 + i).to(grad_type));
    t.m.push_back(at::zeros_like(t.params.back()));
    t.v.push_back(at::zeros_like(t.params.back()));
  }
  return t;
}

TEST(AdamW, MatchesReference) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::string& isa : cpu_isa_names()) {
      CpuIsaScope isa_scope(isa);
      AdamWTensors fused = make_state(type), plain = make_state(type);
      for (int step = 1; step <= 4; ++step) {
        const AdamWOptions o{.learning_rate = 0.01, .weight_decay = 0.1, .grad_scale = 0.5, .step = step};
        adamw_step(fused, o);
        BackendScope scope(Backend::reference);
        adamw_step(plain, o);
      }
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        expect_near(fused.params[i], plain.params[i], 1e-6, isa + " parameter");
        expect_near(fused.m[i], plain.m[i], 1e-6, isa + " first moment");
        expect_near(fused.v[i], plain.v[i], 1e-6, isa + " second moment");
        EXPECT_TRUE(fused.grads[i].equal(plain.grads[i]));
      }
    }
  }
}

TEST(AdamW, GpuProgramMatchesReference) {
  std::vector<std::pair<at::Device, Backend>> places = {{at::kCPU, Backend::gpu_on_host}};
  if (testing::cuda_to_test()) places.push_back({at::kCUDA, Backend::automatic});
  for (const auto& [device, backend] : places) {
    // More tensors than a batch holds, of both types.
    AdamWTensors fused, plain;
    for (std::uint64_t i = 0; i < 130; ++i) {
      const std::int64_t n = i == 77 ? 9001 : static_cast<std::int64_t>(i % 7);
      for (AdamWTensors* t : {&fused, &plain}) {
        t->params.push_back(random_tensor({n}, i).to(device));
        t->grads.push_back(random_tensor({n}, 200 + i).to(device, i % 3 == 0 ? at::kBFloat16 : at::kFloat));
        t->m.push_back(at::zeros_like(t->params.back()));
        t->v.push_back(at::zeros_like(t->params.back()));
      }
    }
    double fused_norm = 0, plain_norm = 0;
    for (int step = 1; step <= 3; ++step) {
      const AdamWOptions o{.learning_rate = 0.01, .weight_decay = 0.1, .grad_scale = 0.5, .step = step};
      {
        BackendScope scope(backend);
        adamw_step(fused, o);
        fused_norm = global_norm(fused.grads);
      }
      BackendScope scope(Backend::reference);
      adamw_step(plain, o);
      plain_norm = global_norm(plain.grads);
    }
    EXPECT_NEAR(fused_norm, plain_norm, 1e-6 * plain_norm);
    for (std::size_t i = 0; i < fused.params.size(); ++i) {
      expect_near(fused.params[i], plain.params[i], 1e-6, "parameter " + std::to_string(i));
      expect_near(fused.m[i], plain.m[i], 1e-6, "first moment " + std::to_string(i));
      expect_near(fused.v[i], plain.v[i], 1e-6, "second moment " + std::to_string(i));
    }
  }
}

TEST(AdamW, FollowsTheFormula) {
  AdamWTensors t = make_state(at::kFloat);
  double p = t.params[1].item<double>(), m = 0, v = 0;
  const double g = t.grads[1].item<double>() * 3.0;
  for (int step = 1; step <= 5; ++step) {
    adamw_step(t, {.learning_rate = 0.02, .weight_decay = 0.3, .grad_scale = 3.0, .step = step});
    p *= 1 - 0.02 * 0.3;
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    p -= 0.02 * (m / (1 - std::pow(0.9, step))) / (std::sqrt(v / (1 - std::pow(0.95, step))) + 1e-8);
  }
  EXPECT_NEAR(t.params[1].item<double>(), p, 1e-6);
}

TEST(AdamW, RefusesListsThatDoNotMatch) {
  AdamWTensors t = make_state(at::kFloat);
  t.m.pop_back();
  EXPECT_THROW(adamw_step(t, {}), Error);
}

TEST(GlobalNorm, MatchesReferenceAndShowsBadValues) {
  for (const std::string& isa : cpu_isa_names()) {
    CpuIsaScope isa_scope(isa);
    std::vector<at::Tensor> tensors = make_state(at::kFloat).grads;
    tensors.push_back(make_state(at::kBFloat16).grads[3]);
    tensors.emplace_back();
    const double fused = global_norm(tensors), plain = reference::global_norm(tensors);
    EXPECT_NEAR(fused, plain, 1e-6 * plain);
    tensors[3][60001].fill_(std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(std::isnan(global_norm(tensors)));
    tensors[3][60001].fill_(std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isinf(global_norm(tensors)));
    tensors[3][60001].fill_(1e30f);  // its square is beyond fp32
    EXPECT_NEAR(global_norm(tensors), 1e30, 1e24);
  }
}

}  // namespace
}  // namespace satformer
