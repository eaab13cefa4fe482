#include "kernels/op_check.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "kernels/backend.h"
#include "kernels/isa.h"

namespace satformer::testing {

at::Tensor random_tensor(std::vector<std::int64_t> shape, std::uint64_t seed, double scale, double shift) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kFloat)) * scale + shift;
}

void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance, const std::string& what) {
  ASSERT_EQ(a.defined(), b.defined()) << what;
  if (!a.defined()) return;
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  if (b.numel() == 0) return;
  const at::Tensor x = a.to(at::kDouble), y = b.to(at::kDouble);
  const double scale = std::max(0.1, y.abs().max().item<double>());
  const double error = (x - y).abs().max().item<double>();
  EXPECT_LE(error, tolerance * scale) << what << ", scale " << scale;
}

TensorList gradients(const TensorList& outputs, const TensorList& output_grads, const TensorList& inputs) {
  TensorList roots, root_grads, leaves;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!output_grads[i].defined() || !outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    root_grads.push_back(output_grads[i]);
  }
  for (const auto& t : inputs) {
    if (t.defined() && t.requires_grad()) leaves.push_back(t);
  }
  TensorList found;
  if (!roots.empty() && !leaves.empty()) found = torch::autograd::grad(roots, leaves, root_grads, {}, false, true);
  TensorList result;
  std::size_t next = 0;
  for (const auto& t : inputs) {
    const bool leaf = t.defined() && t.requires_grad();
    result.push_back(leaf && !found.empty() ? found[next++] : at::Tensor());
  }
  return result;
}

namespace {

bool differentiable(const at::Tensor& t) { return t.defined() && at::isFloatingType(t.scalar_type()); }

// Same values, elements not adjacent.
at::Tensor strided(const at::Tensor& t) {
  if (!t.defined() || t.dim() == 0) return t;
  at::Tensor wide = at::empty(t.sizes().vec(), t.options()).unsqueeze(-1).repeat_interleave(2, -1);
  wide.select(-1, 0).copy_(t);
  return wide.select(-1, 0);
}

struct Options {
  Backend backend = Backend::automatic;
  bool strided_inputs = false, strided_grads = false;
  int without_output = -1, without_input = -1;
};

struct Result {
  TensorList outputs, grads;
};

Result run(const OpCheck& check, const TensorList& inputs, const TensorList& output_grads, const Options& options) {
  BackendScope scope(options.backend);
  TensorList leaves = inputs, arguments;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (differentiable(leaves[i])) {
      leaves[i] = leaves[i].detach().clone().set_requires_grad(static_cast<int>(i) != options.without_input);
    }
    arguments.push_back(
        options.strided_inputs && differentiable(leaves[i]) && leaves[i].dim() > 1 ? strided(leaves[i]) : leaves[i]);
  }
  Result result;
  result.outputs = check.body(arguments);
  TensorList grads(result.outputs.size());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (static_cast<int>(i) == options.without_output || i >= output_grads.size()) continue;
    const at::Tensor g = output_grads[i].to(result.outputs[i].scalar_type());
    grads[i] = options.strided_grads ? strided(g) : g;
  }
  result.grads = gradients(result.outputs, grads, leaves);
  return result;
}

TensorList random_like(const TensorList& tensors, std::uint64_t seed) {
  TensorList result;
  for (const auto& t : tensors) result.push_back(random_tensor(t.sizes().vec(), seed++));
  return result;
}

// An undefined gradient counts as zeros.
at::Tensor or_zeros(const at::Tensor& grad, const at::Tensor& like) {
  return grad.defined() || !like.defined() ? grad : at::zeros_like(like);
}

void compare(const OpCheck& check, const Result& got, const Result& want, const std::string& what) {
  ASSERT_EQ(got.outputs.size(), want.outputs.size());
  for (std::size_t i = 0; i < got.outputs.size(); ++i) {
    expect_near(got.outputs[i], want.outputs[i], check.tolerance, what + ": output " + std::to_string(i));
  }
  for (std::size_t i = 0; i < got.grads.size(); ++i) {
    if (!differentiable(check.inputs[i])) continue;
    expect_near(or_zeros(got.grads[i], check.inputs[i]), or_zeros(want.grads[i], check.inputs[i]),
                check.tolerance * 4, what + ": gradient of " + check.names[i]);
  }
}

void check_fp32(const OpCheck& check, const TensorList& output_grads, Backend fused, const std::string& isa) {
  const auto same = [&](Options options, const std::string& what) {
    options.backend = fused;
    const Result got = run(check, check.inputs, output_grads, options);
    options.backend = Backend::reference;
    compare(check, got, run(check, check.inputs, output_grads, options), isa + ", " + what);
  };
  same({}, "plain");
  same({.strided_inputs = true}, "strided inputs");
  same({.strided_grads = true}, "strided gradients");
  for (int i = 0; output_grads.size() > 1 && i < static_cast<int>(output_grads.size()); ++i) {
    same({.without_output = i}, "no gradient for output " + std::to_string(i));
  }
  for (int i = 0; i < static_cast<int>(check.inputs.size()); ++i) {
    if (differentiable(check.inputs[static_cast<std::size_t>(i)])) {
      same({.without_input = i}, check.names[static_cast<std::size_t>(i)] + " without gradient");
    }
  }
  at::NoGradGuard no_grad;
  TensorList silent;
  {
    BackendScope scope(fused);
    silent = check.body(check.inputs);
  }
  BackendScope scope(Backend::reference);
  const TensorList want = check.body(check.inputs);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_FALSE(silent[i].requires_grad());
    expect_near(silent[i], want[i], check.tolerance, isa + ", without recording: output " + std::to_string(i));
  }
}

void check_bf16(const OpCheck& check, const TensorList& output_grads, Backend backend, const std::string& isa) {
  TensorList low, high, grads;
  for (std::size_t i = 0; i < check.inputs.size(); ++i) {
    const at::Tensor& t = check.inputs[i];
    const bool rounded = differentiable(t) && (check.in_bf16.empty() || check.in_bf16[i]);
    low.push_back(rounded ? t.to(at::kBFloat16) : t);
    high.push_back(rounded ? low.back().to(at::kFloat) : t);
  }
  for (const auto& g : output_grads) grads.push_back(g.to(at::kBFloat16).to(at::kFloat));
  const Result truth = run(check, high, grads, {.backend = Backend::reference});
  const Result reference = run(check, low, grads, {.backend = Backend::reference});
  const Result fused = run(check, low, grads, {.backend = backend});
  const auto judge = [&](const at::Tensor& f, const at::Tensor& r, const at::Tensor& t, const std::string& what) {
    if (!t.defined() || t.numel() == 0) return;
    ASSERT_TRUE(f.defined()) << what;
    const double scale = t.abs().max().item<double>();
    const double allowed = (r.to(at::kFloat) - t).abs().max().item<double>() * 1.5 + scale * 0.005 + 1e-5;
    EXPECT_LE((f.to(at::kFloat) - t).abs().max().item<double>(), allowed) << isa << ", bf16: " << what;
  };
  for (std::size_t i = 0; i < truth.outputs.size(); ++i) {
    judge(fused.outputs[i], reference.outputs[i], truth.outputs[i], "output " + std::to_string(i));
  }
  for (std::size_t i = 0; i < truth.grads.size(); ++i) {
    if (!truth.grads[i].defined()) continue;
    judge(fused.grads[i], reference.grads[i], truth.grads[i], "gradient of " + check.names[i]);
    EXPECT_EQ(fused.grads[i].scalar_type(), low[i].scalar_type()) << check.names[i];
  }
}

// <gradient, direction> against (f(x + h d) - f(x - h d)) / 2h, one input at a time.
void check_differences(const OpCheck& check, const TensorList& output_grads) {
  const Result analytic = run(check, check.inputs, output_grads, {.backend = Backend::reference});
  BackendScope scope(Backend::reference);
  const auto value = [&](const TensorList& inputs) {
    at::NoGradGuard no_grad;
    double sum = 0;
    const TensorList outputs = check.body(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      sum += (outputs[i].to(at::kDouble) * output_grads[i].to(at::kDouble)).sum().item<double>();
    }
    return sum;
  };
  for (std::size_t i = 0; i < check.inputs.size(); ++i) {
    if (!differentiable(check.inputs[i]) || check.inputs[i].numel() == 0) continue;
    const at::Tensor direction = random_tensor(check.inputs[i].sizes().vec(), 900 + i);
    const at::Tensor grad = or_zeros(analytic.grads[i], check.inputs[i]).to(at::kDouble);
    TensorList plus = check.inputs, minus = check.inputs;
    plus[i] = check.inputs[i] + direction * check.difference_step;
    minus[i] = check.inputs[i] - direction * check.difference_step;
    const double numeric = (value(plus) - value(minus)) / (2 * check.difference_step);
    const double exact = (grad * direction.to(at::kDouble)).sum().item<double>();
    const double scale = grad.norm().item<double>() + 0.1;
    EXPECT_NEAR(numeric, exact, 5e-3 * scale) << "finite differences along " << check.names[i];
  }
}

TensorList moved(const TensorList& tensors, at::Device device) {
  TensorList result;
  for (const auto& t : tensors) result.push_back(t.defined() ? t.to(device) : t);
  return result;
}

}  // namespace

bool cuda_to_test() {
  static const bool usable = [] {
    if (!built_with_cuda()) return false;
    dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);  // registers the device
    const bool found = at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
    if (!found && std::getenv("SATFORMER_TEST_CUDA")) throw Error(ExitCode::system, "no CUDA device to test on");
    return found;
  }();
  return usable;
}

void check_op(const OpCheck& check) {
  ASSERT_EQ(check.inputs.size(), check.names.size());
  TensorList output_grads;
  {
    at::NoGradGuard no_grad;
    BackendScope scope(Backend::reference);
    output_grads = random_like(check.body(check.inputs), 500);
  }
  if (check.difference_step > 0) check_differences(check, output_grads);
  const auto compare_all = [&](const OpCheck& c, const TensorList& grads, Backend fused, const std::string& where) {
    check_fp32(c, grads, fused, where);
    if (c.bf16) check_bf16(c, grads, fused, where);
  };
  for (const std::string& isa : cpu_isa_names()) {
    CpuIsaScope scope(isa);
    compare_all(check, output_grads, Backend::automatic, isa);
  }
  compare_all(check, output_grads, Backend::gpu_on_host, "GPU program on the host");
  if (!cuda_to_test()) return;
  OpCheck on_gpu = check;
  on_gpu.inputs = moved(check.inputs, at::kCUDA);
  compare_all(on_gpu, moved(output_grads, at::kCUDA), Backend::automatic, "CUDA");
}

}  // namespace satformer::testing
