#include "kernels/cpu_rows.h"
#include "kernels/depth_aggregate/depth_aggregate.h"

namespace satformer::cpu {
namespace {

// Inputs: N states, weights, then pre (N) and post (ways) norm weights where there are any. Outputs: the streams,
// then the states.
class DepthAggregateOp : public CpuOp {
 public:
  DepthAggregateOp(std::size_t states, std::size_t pre, std::size_t post, double eps)
      : states_(states), pre_(pre), post_(post), eps_(eps) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    TensorList streams;
    for (std::int64_t c = 0; c < inputs[states_].size(2); ++c) streams.push_back(at::empty_like(inputs[0]));
    with_element(isa(), inputs[0].scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const Call<T> call(*this, inputs);
      auto args = call.args;
      std::vector<T*> outputs;
      for (const auto& t : streams) outputs.push_back(out<T>(t));
      args.out = outputs.data();
      parallel_ranges(call.tokens, args.columns * args.states_count, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> scratch(call.scratch);
        auto part = args;
        part.scratch = scratch.data();
        table.depth_aggregate(part, begin, end);
      });
    });
    streams.insert(streams.end(), inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(states_));
    return streams;
  }

  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(saved.size()), dy, passed;
    const std::size_t ways = grads.size() - states_;
    bool any = false;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      any = any || (i < ways && grads[i].defined());
      (i < ways ? dy : passed).push_back(dense(grads[i], saved[0].scalar_type()));
    }
    if (!any) {
      for (std::size_t j = 0; j < states_; ++j) result[j] = grads[ways + j];
      return result;
    }
    for (std::size_t j = 0; j < states_; ++j) {
      if (needs[j]) result[j] = at::empty_like(saved[j]);
    }
    const auto wanted = [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        if (needs[i]) return true;
      }
      return false;
    };
    const std::size_t first_pre = states_ + 1, first_post = first_pre + pre_;
    at::Tensor dweights, dpre, dpost;
    with_element(isa(), saved[0].scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const Call<T> call(*this, saved);
      auto args = call.args;
      const RowBlocks blocks(call.tokens);
      if (needs[states_]) dweights = at::empty_like(call.weights);
      if (wanted(first_pre, pre_)) dpre = block_sums(blocks, args.states_count * args.columns);
      if (wanted(first_post, post_)) dpost = block_sums(blocks, args.ways * args.columns);
      std::vector<const T*> dy_pointers, passed_pointers;
      std::vector<T*> dstates;
      for (const auto& g : dy) dy_pointers.push_back(in<T>(g));
      for (const auto& g : passed) passed_pointers.push_back(in<T>(g));
      for (std::size_t j = 0; j < states_; ++j) dstates.push_back(out<T>(result[j]));
      args.dy = dy_pointers.data();
      args.passed = passed_pointers.data();
      args.dstates = dstates.data();
      args.dweights = out<float>(dweights);
      args.dpre = out<float>(dpre);
      args.dpost = out<float>(dpost);
      parallel_blocks(blocks, 2 * args.columns * args.states_count,
                      [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
                        std::vector<float> scratch(call.scratch);
                        auto part = args;
                        part.scratch = scratch.data();
                        if (part.dpre) part.dpre += block * dpre.size(1);
                        if (part.dpost) part.dpost += block * dpost.size(1);
                        table.depth_aggregate_grad(part, begin, end);
                      });
    });
    if (dweights.defined()) result[states_] = dweights.to(saved[states_].scalar_type());
    const auto hand_out = [&](const at::Tensor& partial, std::size_t first, std::size_t count) {
      if (!partial.defined()) return;
      const at::Tensor sums = sum_of_blocks(partial).view({static_cast<std::int64_t>(count), -1});
      for (std::size_t i = 0; i < count; ++i) {
        const at::Tensor& like = saved[first + i];
        if (needs[first + i]) {
          result[first + i] = sums.select(0, static_cast<std::int64_t>(i)).to(like.scalar_type()).view_as(like);
        }
      }
    };
    hand_out(dpre, first_pre, pre_);
    hand_out(dpost, first_post, post_);
    return result;
  }

 private:
  // The arguments that forward and backward share, and what they point to.
  template <class T>
  struct Call {
    Call(const DepthAggregateOp& op, const TensorList& inputs) : weights(dense_fp32(inputs[op.states_])) {
      for (std::size_t j = 0; j < op.states_; ++j) states.push_back(in<T>(inputs[j]));
      for (std::size_t i = op.states_ + 1; i < inputs.size(); ++i) {
        norms.push_back(dense_fp32(inputs[i]));
        norm_pointers.push_back(in<float>(norms.back()));
      }
      const std::int64_t C = inputs[0].size(-1), ways = weights.size(2), N = weights.size(3);
      tokens = inputs[0].numel() / C;
      scratch = static_cast<std::size_t>(ways * C + N);
      args = {.states = states.data(),
              .weights = in<float>(weights),
              .pre = op.pre_ ? norm_pointers.data() : nullptr,
              .post = op.post_ ? norm_pointers.data() + op.pre_ : nullptr,
              .out = nullptr,
              .dy = nullptr,
              .passed = nullptr,
              .dstates = nullptr,
              .dweights = nullptr,
              .dpre = nullptr,
              .dpost = nullptr,
              .scratch = nullptr,
              .states_count = N,
              .ways = ways,
              .columns = C,
              .eps = static_cast<float>(op.eps_)};
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    at::Tensor weights;
    TensorList norms;
    std::vector<const T*> states;
    std::vector<const float*> norm_pointers;
    std::int64_t tokens = 0;
    std::size_t scratch = 0;
    rows::DepthAggregate<T> args;
  };

  std::size_t states_, pre_, post_;
  double eps_;
};

}  // namespace

std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms) {
  TensorList inputs;
  for (const at::Tensor& t : states_BTD) inputs.push_back(t.contiguous());
  inputs.push_back(weights_BTWN);
  inputs.insert(inputs.end(), norms.pre.begin(), norms.pre.end());
  inputs.insert(inputs.end(), norms.post.begin(), norms.post.end());
  return apply_op(
      std::make_shared<DepthAggregateOp>(states_BTD.size(), norms.pre.size(), norms.post.size(), norms.eps), inputs);
}

}  // namespace satformer::cpu
