#include "infer/window_loss_ranks.h"

#include <ATen/ops/zeros.h>

#include <algorithm>

#include "distributed/agree.h"

namespace satformer {
namespace {

// Windows [begin, end) of a source.
class WindowRange : public WindowSource {
 public:
  WindowRange(const WindowSource& all, std::int64_t begin, std::int64_t end) : all_(all), begin_(begin), end_(end) {}
  std::int64_t size() const override { return end_ - begin_; }
  std::int64_t seq_length() const override { return all_.seq_length(); }
  bool has_marks() const override { return all_.has_marks(); }
  void read(std::int64_t window, std::span<std::int64_t> ids, std::span<TokenMark> marks) const override {
    all_.read(begin_ + window, ids, marks);
  }
  Place place(std::int64_t window) const override { return all_.place(begin_ + window); }

 private:
  const WindowSource& all_;
  const std::int64_t begin_, end_;
};

}  // namespace

WindowLoss window_loss_over_ranks(Model& model, const WindowSource& windows, const WindowLossOptions& options,
                                  Communicator& ranks, bool& stopped) {
  const std::int64_t total = options.max_windows > 0 ? std::min(options.max_windows, windows.size()) : windows.size();
  const WindowShare share = share_of_rank(total, ranks.rank(), ranks.size());
  const WindowRange range(windows, share.begin, share.end);
  WindowLossOptions own = options;
  own.max_windows = 0;
  bool stop = false;
  own.progress = [&](const WindowLoss& so_far, std::int64_t all) {
    ranks.progress();
    ranks.check();
    stop = stop || (options.progress && !options.progress(so_far, all));
    return !stop;
  };
  WindowLoss result = range.size() > 0 ? window_loss(model, range, own) : WindowLoss{};
  stopped = any_rank(ranks, stop);
  at::Tensor loss = at::zeros({1}, at::kDouble), counts = at::zeros({2 + 2 * num_token_kinds}, at::kLong);
  *loss.mutable_data_ptr<double>() = result.loss_sum;
  auto* count = counts.mutable_data_ptr<std::int64_t>();
  count[0] = result.targets;
  count[1] = result.windows;
  for (std::size_t kind = 0; kind < num_token_kinds; ++kind) {
    count[2 + 2 * kind] = result.accuracy.kinds[kind].correct;
    count[3 + 2 * kind] = result.accuracy.kinds[kind].targets;
  }
  ranks.all_reduce(loss);
  ranks.all_reduce(counts);
  result.loss_sum = *loss.const_data_ptr<double>();
  result.targets = count[0];
  result.windows = count[1];
  for (std::size_t kind = 0; kind < num_token_kinds; ++kind) {
    result.accuracy.kinds[kind] = {count[2 + 2 * kind], count[3 + 2 * kind]};
  }
  return result;
}

}  // namespace satformer
