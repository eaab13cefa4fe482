#include "kernels/finite.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <atomic>
#include <cstdint>

#include "kernels/parallel.h"

namespace satformer {
namespace {

// Infinities and NaN have all bits of the exponent.
template <class Word>
bool has_full_exponent(const Word* words, std::int64_t count, Word exponent) {
  Word found = 0;
  for (std::int64_t i = 0; i < count; ++i) found |= static_cast<Word>((words[i] & exponent) == exponent ? 1 : 0);
  return found != 0;
}

template <class Word>
bool all_finite_words(const at::Tensor& tensor, Word exponent) {
  constexpr std::int64_t block = 1 << 16;
  const auto* words = static_cast<const Word*>(tensor.const_data_ptr());
  const std::int64_t count = tensor.numel(), blocks = (count + block - 1) / block;
  std::atomic<bool> found{false};
  parallel_ranges(blocks, block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end && !found.load(std::memory_order_relaxed); ++b) {
      const std::int64_t first = b * block, size = count - first < block ? count - first : block;
      if (has_full_exponent(words + first, size, exponent)) found.store(true, std::memory_order_relaxed);
    }
  });
  return !found.load();
}

}  // namespace

bool all_finite(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  if (tensor.is_cpu() && tensor.is_contiguous()) {
    if (tensor.scalar_type() == at::kFloat) return all_finite_words<std::uint32_t>(tensor, 0x7f800000u);
    if (tensor.scalar_type() == at::kBFloat16) return all_finite_words<std::uint16_t>(tensor, 0x7f80u);
  }
  return at::isfinite(tensor).all().item<bool>();
}

}  // namespace satformer
