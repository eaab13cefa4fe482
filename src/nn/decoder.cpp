#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cummax.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>

#include "base/error.h"
#include "kernels/linear_cross_entropy/linear_cross_entropy.h"
#include "nn/layer_stack.h"
#include "nn/model.h"

namespace satformer {
namespace {

class Decoder : public Model {
 public:
  Decoder(const std::string& architecture, const ModelConfig& config, at::Device device)
      : architecture_(architecture), config_(config), store_(device), weights_(at::kFloat) {
    const std::int64_t V = config.vocab_size, C = config.hidden_size;
    const Init normal = Init::normal(config.initializer_range);
    embedding_ = store_.add("model.embeddings.weight", {V, C}, normal, ParamKind::embedding, "embedding");
    if (config.position_type == "learned") {
      positions_ = store_.add("model.positions.weight", {config.max_position_embeddings, C}, normal,
                              ParamKind::embedding, "positions");
    }
    stack_ = std::make_unique<LayerStack>(config, store_);
    head_ = config.tie_word_embeddings ? embedding_
                                       : store_.add("lm_head.weight", {V, C}, normal, ParamKind::embedding, "head");
  }

  const ModelConfig& config() const override { return config_; }
  const std::string& architecture() const override { return architecture_; }
  ParameterStore& parameters() override { return store_; }
  const ParameterStore& parameters() const override { return store_; }
  void set_compute_dtype(at::ScalarType dtype) override { weights_.set_dtype(dtype); }
  at::ScalarType compute_dtype() const override { return weights_.dtype(); }

  void quantise_weights(WeightFormat format) override;

  at::Tensor hidden(const at::Tensor& ids_BT, const ForwardOptions& options) override;
  at::Tensor logits(const at::Tensor& ids_BT, const ForwardOptions& options) override {
    at::Tensor h = hidden(ids_BT, options);
    const std::int64_t keep = options.logits_to_keep, T = h.size(1);
    if (keep > 0 && keep < T) h = h.narrow(1, T - keep, keep);
    return head(h);
  }
  at::Tensor head(const at::Tensor& hidden_NC) override { return weights_.linear(hidden_NC, head_).to(at::kFloat); }
  at::Tensor loss(const at::Tensor& ids_BT, const at::Tensor& targets_BT, double scale,
                  const ForwardOptions& options) override;
  at::Tensor losses(const at::Tensor& ids_BT, const at::Tensor& targets_BT, const ForwardOptions& options,
                    at::Tensor* greedy) override {
    at::NoGradGuard no_grad;
    const at::Tensor h = hidden(ids_BT, options);
    at::Tensor loss = token_losses(h.flatten(0, 1), weights_(head_), targets_BT.flatten(), greedy);
    if (greedy) *greedy = greedy->view(targets_BT.sizes());
    return loss.view(targets_BT.sizes());
  }

 private:
  PassContext prepare_pass(const at::Tensor& ids_BT, const ForwardOptions& options);

  std::string architecture_;
  ModelConfig config_;
  ParameterStore store_;
  ComputeWeights weights_;
  at::Tensor embedding_, positions_, head_;  // positions undefined where they are rotary
  std::unique_ptr<LayerStack> stack_;
};

void Decoder::quantise_weights(WeightFormat format) {
  if (!store_.device().is_cpu()) {
    fail(ExitCode::usage, weight_format_name(format), " weights are for the CPU, not for ", store_.device().str());
  }
  for (const Parameter& p : store_.list()) {
    const bool projection = p.kind == ParamKind::matrix && (p.part == "attention" || p.part == "mlp");
    if (projection && !weights_.is_packed(p.value)) weights_.pack(p.value, format, false);
  }
  if (!weights_.is_packed(head_)) weights_.pack(head_, format, head_.is_same(embedding_));
}

// The documents of each row, cut after every `end` id.
void set_documents(const at::Tensor& ids_BT, std::int64_t end, PassContext& pass) {
  const at::NoGradGuard no_grad;
  const at::Tensor ends = ids_BT.eq(end).to(at::kLong);
  const at::Tensor index = at::arange(ids_BT.size(1), ids_BT.options());
  // The position after the last end before t, or 0.
  const at::Tensor after = (ends * (index + 1)).roll(1, 1);
  after.select(1, 0).zero_();
  pass.document_start_BT = std::get<0>(at::cummax(after, 1));
  pass.mask.document_BT = pass.document_start_BT;
  pass.positions_BT = index - pass.document_start_BT;
}

PassContext Decoder::prepare_pass(const at::Tensor& ids_BT, const ForwardOptions& options) {
  if (ids_BT.dim() != 2 || ids_BT.scalar_type() != at::kLong) {
    fail(ExitCode::internal, "token ids must be an int64 matrix [batch, time]");
  }
  const std::int64_t T = ids_BT.size(1), past = options.cache ? options.cache->length() : 0;
  if (past + T > config_.max_position_embeddings) {
    fail(ExitCode::config, "a context of ", past + T,
         " tokens is longer than the model's max_position_embeddings of ", config_.max_position_embeddings);
  }
  PassContext pass;
  pass.mask.window = config_.window_size;
  at::Tensor valid_BT;
  if (options.attention_mask_BT.defined()) {
    if (options.attention_mask_BT.sizes() != ids_BT.sizes()) {
      fail(ExitCode::internal, "the attention mask must have the shape of the token ids");
    }
    valid_BT = options.attention_mask_BT.ne(0);
    pass.query_valid_BT = valid_BT;
  }
  if (options.cache) {
    KvCache& cache = *options.cache;
    cache.begin_block(valid_BT.defined() ? valid_BT : at::ones(ids_BT.sizes(), ids_BT.options().dtype(at::kBool)));
    pass.cache = &cache;
    pass.positions_BT = cache.positions_BT();
    pass.mask.query_index_BT = cache.query_index_BT();
    pass.mask.key_valid_BS = cache.key_valid_BS();
  } else if (valid_BT.defined()) {
    pass.positions_BT = (at::cumsum(valid_BT.to(at::kLong), 1) - 1).clamp_min(0);
    pass.mask.key_valid_BS = valid_BT;
  }
  if (options.document_end) {
    if (options.cache || valid_BT.defined()) {
      fail(ExitCode::internal, "documents are told apart in whole passes without pads only");
    }
    set_documents(ids_BT, *options.document_end, pass);
  }
  return pass;
}

at::Tensor Decoder::hidden(const at::Tensor& ids_BT, const ForwardOptions& options) {
  const PassContext pass = prepare_pass(ids_BT, options);
  at::Tensor embedded = at::embedding(embedding_, ids_BT);
  if (positions_.defined()) {
    embedded = embedded + (pass.positions_BT.defined() ? at::embedding(positions_, pass.positions_BT)
                                                       : positions_.narrow(0, 0, ids_BT.size(1)));
  }
  embedded = embedded.to(weights_.dtype());
  const at::Tensor states = stack_->forward(embedded, pass, weights_, {options.observer, options.recompute_layers});
  if (options.cache) options.cache->end_block();
  return states;
}

at::Tensor Decoder::loss(const at::Tensor& ids_BT, const at::Tensor& targets_BT, double scale,
                         const ForwardOptions& options) {
  const at::Tensor h = hidden(ids_BT, options).flatten(0, 1);
  const at::Tensor head = weights_(head_);
  const at::Tensor loss = linear_cross_entropy(h, head, targets_BT.flatten(), scale);
  if (!config_.use_l2warp || !at::GradMode::is_enabled()) return loss;
  // The value stays as it is; the gradient of each token's largest logit gains 1e-4 * logit * scale.
  const at::Tensor largest = at::linear(h, head).to(at::kFloat).amax({-1});
  const at::Tensor penalty = largest.square().sum() * (0.5e-4 * scale);
  return loss + (penalty - penalty.detach());
}

}  // namespace

std::unique_ptr<Model> make_decoder(const std::string& architecture, const ModelConfig& config, at::Device device) {
  return std::make_unique<Decoder>(architecture, config, device);
}

}  // namespace satformer
