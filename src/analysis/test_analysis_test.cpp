#include "analysis/test_analysis.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <nlohmann/json.hpp>

namespace satformer::testing {

ModelConfig analysis_config(const std::string& routing, const std::string& values) {
  ModelConfig c;
  c.vocab_size = 259;
  c.hidden_size = 32;
  c.num_hidden_layers = 4;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.qk_norm = true;
  c.intermediate_size = 64;
  c.max_position_embeddings = 64;
  c.initializer_range = 0.2;
  c.residual_routing = routing;
  c.value_path = values;
  return c;
}

std::unique_ptr<Model> analysis_model(const ModelConfig& config) {
  auto model = make_model(architecture_by_name("satformer"), config, at::kCPU);
  model->parameters().initialise(42);
  at::NoGradGuard no_grad;
  for (Parameter& p : model->parameters().list()) {
    const at::Tensor numbers = at::arange(p.value.numel(), at::kFloat).view(p.value.sizes());
    p.value.add_((numbers * 1.7).sin() * 0.1);
  }
  return model;
}

AnalysisFixture::AnalysisFixture(const ModelConfig& config)
    : model(analysis_model(config)),
      tokenizer(make_byte_tokenizer()),
      kinds(make_rule_kinds(*tokenizer, default_kind_rules(), "rules")) {
  std::string text;
  while (text.size() < 6 * 33) text += "The owl sat on the old lamp, and the lamp fell; nobody saw it. ";
  const std::vector<std::int32_t> ids = tokenizer->encode(text);
  const at::Tensor tokens = at::empty({6, 33}, at::kLong);
  counts.assign(259, 0);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) {
    tokens.mutable_data_ptr<std::int64_t>()[i] = ids[static_cast<std::size_t>(i)];
    ++counts[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)])];
  }
  input.model = model.get();
  input.tokenizer = tokenizer.get();
  input.kinds = kinds.get();
  input.batch_size = 4;
  input.resamples = 200;
  measured = measure(*model, tokens, *kinds, input.pass("test"));
  input.measured = &measured;
  input.token_counts = counts;
}

}  // namespace satformer::testing
