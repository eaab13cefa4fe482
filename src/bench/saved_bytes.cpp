#include "bench/saved_bytes.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <unordered_map>

namespace satformer {
namespace {

// Told by libtorch's allocators, as a profiler is.
class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* address, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    if (size > 0) {
      sizes_[address] = size;
      live_ += size;
    } else if (const auto found = sizes_.find(address); found != sizes_.end()) {
      live_ -= found->second;
      sizes_.erase(found);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t live() const { return live_; }

 private:
  std::unordered_map<void*, std::int64_t> sizes_;
  std::int64_t live_ = 0;
};

}  // namespace

std::int64_t live_bytes_after(const std::function<void()>& work) {
  const auto counted = std::make_shared<LiveBytes>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counted);
  work();
  return counted->live();
}

std::int64_t saved_bytes(Model& model, const at::Tensor& ids_BT, const at::Tensor& targets_BT,
                         const ForwardOptions& options) {
  const at::AutoGradMode grad(true);
  at::Tensor loss;
  return live_bytes_after(
      [&] { loss = model.loss(ids_BT, targets_BT, 1.0 / static_cast<double>(targets_BT.numel()), options); });
}

}  // namespace satformer
