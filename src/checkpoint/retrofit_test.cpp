#include "checkpoint/retrofit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace satformer {
namespace {

ModelConfig base_config() {
  ModelConfig c = default_model_config(architecture_by_name("transformer"));
  c.vocab_size = 31;
  c.hidden_size = 32;
  c.num_hidden_layers = 4;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.intermediate_size = 48;
  c.max_position_embeddings = 16;
  c.validate();
  return c;
}

std::unique_ptr<Model> base_model() {
  auto model = make_model(architecture_by_name("transformer"), base_config(), at::kCPU);
  model->parameters().initialise(3);
  return model;
}

at::Tensor logits(Model& model) {
  const at::NoGradGuard no_grad;
  return model.logits(at::arange(12, at::kLong).view({1, 12}), {});
}

std::string refusal(const std::string& addition, const ModelConfig& base = base_config()) {
  try {
    plan_retrofit(addition, base);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ExitCode::usage || error.code() == ExitCode::config) << error.what();
    return error.what();
  }
  ADD_FAILURE() << addition << " was not refused";
  return {};
}

TEST(Retrofit, StartsAsTheSameFunctionAndLearns) {
  const auto base = base_model();
  const at::Tensor before = logits(*base);
  const at::Tensor ids = at::arange(12, at::kLong).view({1, 12});
  for (const char* addition : {"satformer", "satformer[gate=identity]", "satformer[granularity=head,last_k=2]",
                               "satformer[ffn=8,bias=true]", "satformer[sources=0;1,layers=2;3]",
                               "satformer[place=output]", "satformer[granularity=static]", "resformer", "lime"}) {
    const RetrofitPlan plan = plan_retrofit(addition, base->config());
    EXPECT_TRUE(plan.exact) << addition;
    const auto model = retrofit(*base, plan, 1);
    EXPECT_TRUE(logits(*model).equal(before)) << addition;
    // A new part that gets no gradient would stay what it is for ever.
    model->loss(ids, ids.roll(-1, 1), 1, {}).backward();
    double gradient = 0;
    for (const Parameter& p : model->parameters().list()) {
      if (base->parameters().find(p.name)) continue;
      if (p.value.grad().defined()) gradient += p.value.grad().abs().sum().item<double>();
    }
    EXPECT_GT(gradient, 0) << addition;
  }
}

TEST(Retrofit, OtherGatesChangeTheModelAndSaySo) {
  const auto base = base_model();
  for (const char* gate : {"relu", "sigmoid", "softmax", "softmax_sigmoid"}) {
    const RetrofitPlan plan = plan_retrofit(concat("satformer[gate=", gate, "]"), base->config());
    EXPECT_FALSE(plan.exact) << gate;
    const auto model = retrofit(*base, plan, 1);
    EXPECT_FALSE(logits(*model).equal(logits(*base))) << gate;
    EXPECT_TRUE(logits(*model).equal(logits(*retrofit(*base, plan, 1)))) << gate;
    EXPECT_FALSE(logits(*model).equal(logits(*retrofit(*base, plan, 2)))) << gate;
  }
}

TEST(Retrofit, WhatCannotBeAddedIsNamed) {
  EXPECT_NE(refusal("satfomer").find("Did you mean 'satformer'?"), std::string::npos);
  EXPECT_NE(refusal("satformer[gat=tanh]").find("'gat' is not a field of a value path. Did you mean 'gate'?"),
            std::string::npos);
  EXPECT_NE(refusal("satformer[gate=tanh").find("not of the form"), std::string::npos);
  EXPECT_NE(refusal("satformer[gate]").find("'gate' is not of the form key=value"), std::string::npos);
  EXPECT_NE(refusal("satformer[gate=tanh,gate=relu]").find("given twice"), std::string::npos);
  EXPECT_NE(refusal("resformer[gate=tanh]").find("no effect on the value path 'resformer'"), std::string::npos);
  EXPECT_NE(refusal("satformer[granularity=factorised]").find("never gets a gradient"), std::string::npos);
  refusal("satformer[gate=tan]");
  ModelConfig has = base_config();
  has.value_path = "resformer";
  EXPECT_NE(refusal("satformer", has).find("has the value path 'resformer' already"), std::string::npos);
}

}  // namespace
}  // namespace satformer
