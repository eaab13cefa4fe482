#include "kernels/depth_aggregate/cuda.h"
#include "kernels/depth_aggregate/depth_aggregate.h"
#include "kernels/gpu/op.h"

namespace satformer::gpu {
namespace {

// Inputs: N states, weights, then pre (N) and post (ways) norm weights where there are any.
class DepthAggregateOp : public DifferentiableOp {
 public:
  DepthAggregateOp(std::size_t states, std::size_t pre, std::size_t post, double eps)
      : states_(states), pre_(pre), post_(post), eps_(eps) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    saved = inputs;
    const Call call(inputs[0]);
    TensorList streams;
    for (std::int64_t c = 0; c < inputs[states_].size(2); ++c) streams.push_back(at::empty_like(inputs[0]));
    const TensorList parameters = fp32_parameters(inputs);
    with_element(inputs[0].scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(inputs, parameters);
      for (std::size_t c = 0; c < streams.size(); ++c) args.out[c] = out<T>(streams[c]);
      depth_aggregate(call.where(), args);
    });
    return streams;
  }

  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>& needs) override {
    TensorList result(saved.size()), dy;
    bool any = false;
    for (const auto& g : grads) {
      any = any || g.defined();
      dy.push_back(aligned(dense(g, saved[0].scalar_type())));
    }
    if (!any) return result;
    const Call call(saved[0]);
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
    const std::int64_t C = saved[0].size(-1);
    const TensorList parameters = fp32_parameters(saved);
    at::Tensor dweights, dpre, dpost;
    if (needs[states_]) dweights = at::empty_like(parameters[0]);
    if (wanted(first_pre, pre_)) dpre = partial_sums(saved[0], depth_blocks, static_cast<std::int64_t>(pre_) * C);
    if (wanted(first_post, post_)) dpost = partial_sums(saved[0], depth_blocks, static_cast<std::int64_t>(post_) * C);
    with_element(saved[0].scalar_type(), [&](auto element) {
      using T = decltype(element);
      auto args = arguments<T>(saved, parameters);
      for (std::size_t c = 0; c < dy.size(); ++c) args.dy[c] = in<T>(dy[c]);
      for (std::size_t j = 0; j < states_; ++j) args.dstates[j] = out<T>(result[j]);
      args.dweights = out<float>(dweights);
      args.dpre = out<float>(dpre);
      args.dpost = out<float>(dpost);
      depth_aggregate_grad(call.where(), args);
    });
    if (dweights.defined()) result[states_] = dweights.to(saved[states_].scalar_type());
    const auto hand_out = [&](const at::Tensor& partial, std::size_t first, std::size_t count) {
      if (!partial.defined()) return;
      const at::Tensor sums = partial.sum(0).view({static_cast<std::int64_t>(count), C});
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
  // The weights, then the norms' weights.
  TensorList fp32_parameters(const TensorList& inputs) const {
    TensorList list;
    for (std::size_t i = states_; i < inputs.size(); ++i) list.push_back(aligned(dense_fp32(inputs[i])));
    return list;
  }
  template <class T>
  DepthAggregate<T> arguments(const TensorList& inputs, const TensorList& parameters) const {
    DepthAggregate<T> args{};
    for (std::size_t j = 0; j < states_; ++j) args.states[j] = in<T>(inputs[j]);
    for (std::size_t j = 0; j < pre_; ++j) args.pre[j] = in<float>(parameters[1 + j]);
    for (std::size_t c = 0; c < post_; ++c) args.post[c] = in<float>(parameters[1 + pre_ + c]);
    args.weights = in<float>(parameters[0]);
    args.columns = static_cast<int>(inputs[0].size(-1));
    args.tokens = inputs[0].numel() / inputs[0].size(-1);
    args.states_count = static_cast<int>(states_);
    args.ways = static_cast<int>(inputs[states_].size(2));
    args.eps = static_cast<float>(eps_);
    args.has_pre = pre_ > 0;
    args.has_post = post_ > 0;
    return args;
  }

  std::size_t states_, pre_, post_;
  double eps_;
};

}  // namespace

std::vector<at::Tensor> depth_aggregate(const std::vector<at::Tensor>& states_BTD, const at::Tensor& weights_BTWN,
                                        const DepthAggregateNorms& norms) {
  TensorList inputs;
  for (const at::Tensor& t : states_BTD) inputs.push_back(aligned(t));
  inputs.push_back(weights_BTWN);
  inputs.insert(inputs.end(), norms.pre.begin(), norms.pre.end());
  inputs.insert(inputs.end(), norms.post.begin(), norms.post.end());
  return apply_op(
      std::make_shared<DepthAggregateOp>(states_BTD.size(), norms.pre.size(), norms.post.size(), norms.eps), inputs);
}

bool depth_aggregate_fits(std::int64_t states, std::int64_t ways, std::int64_t columns) {
  return states <= max_states && depth_ways_fit(ways) && columns % 4 == 0 && ways * columns + states <= max_scratch;
}

}  // namespace satformer::gpu
