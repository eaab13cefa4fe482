#include "nn/parameters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/random.h"

namespace satformer {

const char* param_kind_name(ParamKind kind) {
  switch (kind) {
    case ParamKind::embedding:
      return "embedding";
    case ParamKind::matrix:
      return "matrix";
    case ParamKind::norm:
      return "norm";
    case ParamKind::bias:
      return "bias";
    case ParamKind::gate:
      return "gate";
    case ParamKind::scalar:
      return "scalar";
  }
  return "unknown";
}

at::Tensor ParameterStore::add(const std::string& name, at::IntArrayRef shape, Init init, ParamKind kind,
                               const std::string& part) {
  if (index_.count(name)) fail(ExitCode::internal, "parameter '", name, "' is added twice");
  at::Tensor value = at::empty(shape, at::TensorOptions().dtype(at::kFloat).device(device_));
  value.set_requires_grad(true);
  index_[name] = list_.size();
  list_.push_back({name, value, std::move(init), kind, part});
  return value;
}

void ParameterStore::to(at::ScalarType dtype) {
  for (Parameter& p : list_) p.value.set_data(p.value.detach().to(dtype));
}

const Parameter* ParameterStore::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &list_[it->second];
}

std::int64_t ParameterStore::count() const {
  std::int64_t total = 0;
  for (const Parameter& p : list_) total += p.value.numel();
  return total;
}

namespace {

void fill_normal(const at::Tensor& out, const std::string& name, std::uint64_t seed, double std_dev) {
  const Philox random(seed, hash_name(name));
  float* data = out.data_ptr<float>();
  const std::int64_t blocks = (out.numel() + 3) / 4, size = out.numel();
  const auto fill = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      float values[4];
      random.normals(static_cast<std::uint64_t>(b), values);
      for (std::int64_t k = 0; k < 4 && 4 * b + k < size; ++k) {
        data[4 * b + k] = static_cast<float>(std_dev * static_cast<double>(values[k]));
      }
    }
  };
  const std::int64_t workers = std::clamp<std::int64_t>(blocks / 65536, 1, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::int64_t w = 1; w < workers; ++w) {
    threads.emplace_back(fill, blocks * w / workers, blocks * (w + 1) / workers);
  }
  fill(0, blocks / workers);
  for (auto& thread : threads) thread.join();
}

}  // namespace

void ParameterStore::initialise(std::uint64_t seed) {
  at::NoGradGuard no_grad;
  for (Parameter& p : list_) {
    if (p.init.kind == Init::Kind::constant) {
      p.value.fill_(p.init.value);
      continue;
    }
    at::Tensor host = at::empty(p.value.sizes(), at::TensorOptions().dtype(at::kFloat));
    if (p.init.kind == Init::Kind::normal) {
      fill_normal(host, p.name, seed, p.init.value);
    } else {
      std::copy(p.init.values.begin(), p.init.values.end(), host.data_ptr<float>());
    }
    p.value.copy_(host);
  }
}

}  // namespace satformer
