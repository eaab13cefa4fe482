#include "kernels/kernels_bench.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdlib>

#include "kernels/backend.h"

namespace satformer::benchmarks {
namespace {

void run(::benchmark::State& state, const Front& front, Backend backend, bool backward) {
  BackendScope scope(backend);
  TensorList inputs = front.make_inputs(), leaves;
  for (auto& t : inputs) {
    if (!t.defined() || !at::isFloatingType(t.scalar_type())) continue;
    t.set_requires_grad(backward);
    leaves.push_back(t);
  }
  TensorList grads;
  {
    at::NoGradGuard no_grad;
    for (const auto& t : front.body(inputs)) grads.push_back(t.dim() ? at::randn_like(t) : t * 0 + 1.0);
  }
  for (auto _ : state) {
    const TensorList outputs = front.body(inputs);
    if (backward) ::benchmark::DoNotOptimize(torch::autograd::grad(outputs, leaves, grads));
  }
}

const char* name_of(Backend backend) { return backend == Backend::automatic ? "fused" : "reference"; }

}  // namespace

std::int64_t count_from(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  const std::int64_t count = text ? std::atoll(text) : otherwise;
  return count > 0 ? count : otherwise;
}

at::Tensor random_tensor(std::vector<std::int64_t> shape, double scale) {
  return at::randn(shape, at::TensorOptions().dtype(at::kFloat)) * scale;
}

void add(const Front& front) {
  for (const bool backward : {false, true}) {
    for (const Backend backend : {Backend::automatic, Backend::reference}) {
      const std::string name = front.name + "/" + name_of(backend) + (backward ? "/both" : "/forward");
      ::benchmark::RegisterBenchmark(name.c_str(), [=](::benchmark::State& s) { run(s, front, backend, backward); })
          ->Unit(::benchmark::kMillisecond)
          ->UseRealTime();
    }
  }
}

void add_plain(const std::string& name, const std::function<std::function<void()>()>& make) {
  for (const Backend backend : {Backend::automatic, Backend::reference}) {
    const auto body = [=](::benchmark::State& s) {
      BackendScope scope(backend);
      const std::function<void()> step = make();
      for (auto _ : s) step();
    };
    ::benchmark::RegisterBenchmark((name + "/" + name_of(backend)).c_str(), body)
        ->Unit(::benchmark::kMillisecond)
        ->UseRealTime();
  }
}

}  // namespace satformer::benchmarks

int main(int argc, char** argv) {
  using namespace satformer::benchmarks;
  for (auto* add_front :
       {add_rms_norm, add_swiglu, add_linear, add_linear_cross_entropy, add_qk_norm_rope, add_value_gate, add_adamw,
        add_attention, add_dense_average, add_depth_aggregate, add_hyper_connection}) {
    add_front();
  }
  ::benchmark::Initialize(&argc, argv);
  if (::benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ::benchmark::RunSpecifiedBenchmarks();
  ::benchmark::Shutdown();
  return 0;
}
