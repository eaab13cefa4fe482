#include "train/validation.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/loader.h"

namespace satformer {

ValidationResult validate(Model& model, const TokenWindows& windows, std::int64_t max_windows,
                          std::int64_t batch_size, const std::function<bool()>& stop,
                          const std::function<void(std::int64_t done, std::int64_t all)>& progress) {
  const at::NoGradGuard no_grad;
  const at::Device device = model.parameters().device();
  const std::int64_t all = max_windows > 0 ? std::min(max_windows, windows.size()) : windows.size();
  ValidationResult result;
  double sum = 0;
  for (std::int64_t first = 0; first < all; first += batch_size) {
    if (stop && stop()) {
      result.stopped = true;
      return result;
    }
    std::vector<std::int64_t> numbers;
    for (std::int64_t n = first; n < std::min(first + batch_size, all); ++n) numbers.push_back(n);
    const Batch batch = read_batch(windows, numbers);
    const at::Tensor losses_BT = model.losses(batch.ids_BT.to(device), batch.targets_BT.to(device), {});
    sum += losses_BT.sum(at::kDouble).item<double>();
    result.windows += static_cast<std::int64_t>(numbers.size());
    if (progress) progress(result.windows, all);
  }
  result.tokens = result.windows * windows.seq_length();
  result.loss = sum / static_cast<double>(result.tokens);
  result.perplexity = std::exp(result.loss);
  return result;
}

}  // namespace satformer
