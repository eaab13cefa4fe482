#include "distributed/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/adamw/adamw.h"

namespace satformer {

struct DataParallel::Hook : torch::autograd::PostAccumulateGradHook {
  Hook(DataParallel& owner, std::size_t parameter) : owner_(owner), parameter_(parameter) {}
  void operator()(const torch::autograd::Variable&) override { owner_.gradient_ready(parameter_); }

 private:
  DataParallel& owner_;
  const std::size_t parameter_;
};

DataParallel::DataParallel(ParameterStore& parameters, Communicator& ranks, const DataParallelOptions& options)
    : parameters_(parameters), ranks_(ranks), sharded_(options.sharded) {
  make_buckets(options.bucket_bytes);
  if (sharded_) make_stretches();
  present_.assign(parameters_.list().size(), 0);
  for (std::size_t i = 0; i < parameters_.list().size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_.list()[i].value, std::make_unique<Hook>(*this, i));
  }
}

DataParallel::~DataParallel() {
  for (const Parameter& p : parameters_.list()) torch::autograd::impl::set_post_acc_grad_hooks(p.value, nullptr);
}

// From the last parameter to the first: backward comes to them in about this order.
void DataParallel::make_buckets(std::int64_t bucket_bytes) {
  const std::vector<Parameter>& list = parameters_.list();
  const std::int64_t capacity = std::max<std::int64_t>(1, bucket_bytes / static_cast<std::int64_t>(sizeof(float)));
  bucket_of_.resize(list.size());
  for (std::size_t i = list.size(); i-- > 0;) {
    const std::int64_t count = list[i].value.numel();
    if (buckets_.empty() || buckets_.back().length + count > capacity) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    bucket.parameters.push_back(i);
    bucket.offsets.push_back(bucket.length);
    bucket.length += count;
    bucket_of_[i] = buckets_.size() - 1;
  }
  const auto options = at::TensorOptions().dtype(at::kFloat).device(parameters_.device());
  for (Bucket& bucket : buckets_) {
    bucket.length = (bucket.length + ranks_.size() - 1) / ranks_.size() * ranks_.size();
    bucket.part = at::zeros({bucket.length / ranks_.size()}, options);
    if (!sharded_) bucket.whole = at::zeros({bucket.length}, options);
  }
}

at::Tensor DataParallel::flat_parameter(std::size_t parameter) const {
  const at::Tensor value = parameters_.list()[parameter].value.detach();
  if (!value.is_contiguous()) fail(ExitCode::internal, "parameter ", parameter, " is not contiguous");
  return value.view({-1});
}

void DataParallel::make_stretches() {
  for (const Bucket& bucket : buckets_) {
    const std::int64_t length = bucket.part.numel(), first = length * ranks_.rank();
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const at::Tensor flat = flat_parameter(bucket.parameters[i]);
      const std::int64_t begin = std::max(first, bucket.offsets[i]);
      const std::int64_t end = std::min(first + length, bucket.offsets[i] + flat.numel());
      if (begin >= end) continue;
      stretches_.push_back({bucket.parameters[i], begin - bucket.offsets[i],
                            flat.narrow(0, begin - bucket.offsets[i], end - begin),
                            bucket.part.narrow(0, begin - first, end - begin)});
    }
  }
}

void DataParallel::begin_last_backward() {
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters.size();
  overlapping_ = true;
}

void DataParallel::gradient_ready(std::size_t parameter) {
  ranks_.progress();
  if (!overlapping_) return;
  Bucket& bucket = buckets_[bucket_of_[parameter]];
  if (bucket.missing == 0) fail(ExitCode::internal, "a gradient was completed twice in one backward");
  --bucket.missing;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) send(buckets_[next_++]);
}

void DataParallel::send(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  at::Tensor whole = bucket.whole.defined() ? bucket.whole : at::empty({bucket.length}, bucket.part.options());
  std::int64_t filled = 0;
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const at::Tensor& value = parameters_.list()[bucket.parameters[i]].value;
    at::Tensor place = whole.narrow(0, bucket.offsets[i], value.numel());
    const at::Tensor& grad = value.grad();
    present_[bucket.parameters[i]] = grad.defined() ? 1 : 0;
    if (grad.defined()) {
      place.copy_(grad.detach().reshape({-1}));
    } else {
      place.zero_();
    }
    filled = bucket.offsets[i] + value.numel();
  }
  if (filled < bucket.length) whole.narrow(0, filled, bucket.length - filled).zero_();
  bucket.pending.push_back(ranks_.start_reduce_scatter(whole, bucket.part));
  if (!sharded_) bucket.pending.push_back(ranks_.start_all_gather(bucket.part, whole));
}

void DataParallel::finish_backward(std::vector<double>& scalars) {
  overlapping_ = false;
  for (; next_ < buckets_.size(); ++next_) send(buckets_[next_]);
  next_ = 0;
  at::Tensor sums = at::empty({static_cast<std::int64_t>(scalars.size() + present_.size())}, at::kDouble);
  auto* sum = sums.mutable_data_ptr<double>();
  std::copy(present_.begin(), present_.end(), std::copy(scalars.begin(), scalars.end(), sum));
  Pending last = ranks_.start_all_reduce(sums);
  for (Bucket& bucket : buckets_) {
    for (Pending& pending : bucket.pending) pending.wait();
    bucket.pending.clear();
  }
  last.wait();
  std::copy_n(sum, scalars.size(), scalars.begin());
  std::copy_n(sum + scalars.size(), present_.size(), present_.begin());
}

double DataParallel::norm() {
  // The squares of one rank's parts are added first, then the ranks', so that both ways give equal bits.
  const auto squares_of = [&](const std::vector<at::Tensor>& parts) {
    const double part_norm = global_norm(parts);
    return part_norm * part_norm;
  };
  double sum = 0;
  if (sharded_) {
    std::vector<at::Tensor> parts;
    for (const Bucket& bucket : buckets_) parts.push_back(bucket.part);
    at::Tensor own = at::empty({1}, at::kDouble), all = at::empty({ranks_.size()}, at::kDouble);
    *own.mutable_data_ptr<double>() = squares_of(parts);
    ranks_.all_gather(own, all);
    for (int rank = 0; rank < ranks_.size(); ++rank) sum += all.const_data_ptr<double>()[rank];
  } else {
    for (int rank = 0; rank < ranks_.size(); ++rank) {
      std::vector<at::Tensor> parts;
      for (const Bucket& bucket : buckets_) parts.push_back(bucket.whole.view({ranks_.size(), -1})[rank]);
      sum += squares_of(parts);
    }
  }
  return std::sqrt(sum);
}

void DataParallel::store_gradients() {
  const at::NoGradGuard no_grad;
  for (const Bucket& bucket : buckets_) {
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      if (!has_gradient(bucket.parameters[i])) continue;
      at::Tensor& value = parameters_.list()[bucket.parameters[i]].value;
      if (!value.grad().defined()) value.mutable_grad() = at::zeros(value.sizes(), value.options());
      value.grad().copy_(bucket.whole.narrow(0, bucket.offsets[i], value.numel()).view(value.sizes()));
    }
  }
}

void DataParallel::gather_parameters() {
  const at::NoGradGuard no_grad;
  auto stretch = stretches_.cbegin();
  for (const Bucket& bucket : buckets_) {
    ranks_.progress();
    const std::int64_t first = bucket.part.numel() * ranks_.rank();
    at::Tensor part = at::zeros({bucket.part.numel()}, bucket.part.options());
    at::Tensor whole = at::empty({bucket.length}, bucket.part.options());
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      if (stretch == stretches_.cend() || stretch->parameter != bucket.parameters[i]) continue;
      part.narrow(0, bucket.offsets[i] + stretch->begin - first, stretch->value.numel()).copy_(stretch->value);
      ++stretch;
    }
    ranks_.all_gather(part, whole);
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      at::Tensor flat = flat_parameter(bucket.parameters[i]);
      flat.copy_(whole.narrow(0, bucket.offsets[i], flat.numel()));
    }
  }
}

std::vector<at::Tensor> DataParallel::gather_stretches(const std::vector<at::Tensor>& values) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> result(parameters_.list().size());
  std::size_t next = 0;
  for (const Bucket& bucket : buckets_) {
    const std::int64_t first = bucket.part.numel() * ranks_.rank();
    at::Tensor part = at::zeros({bucket.part.numel()}, bucket.part.options());
    at::Tensor whole = at::empty({bucket.length}, bucket.part.options());
    for (std::size_t i = 0; i < bucket.parameters.size() && next < stretches_.size(); ++i) {
      const Stretch& stretch = stretches_[next];
      if (stretch.parameter != bucket.parameters[i]) continue;
      part.narrow(0, bucket.offsets[i] + stretch.begin - first, stretch.value.numel()).copy_(values[next]);
      ++next;
    }
    ranks_.all_gather(part, whole);
    for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
      const std::int64_t count = parameters_.list()[bucket.parameters[i]].value.numel();
      result[bucket.parameters[i]] = whole.narrow(0, bucket.offsets[i], count);
    }
  }
  return result;
}

void broadcast_parameters(ParameterStore& parameters, Communicator& ranks) {
  if (ranks.size() == 1) return;
  const at::NoGradGuard no_grad;
  for (Parameter& p : parameters.list()) {
    const at::Tensor value = p.value.detach();
    at::Tensor carried = value.to(at::kFloat).contiguous();  // bf16 is exact in it
    ranks.broadcast(carried, 0);
    if (ranks.rank() != 0) value.copy_(carried);
  }
}

}  // namespace satformer
