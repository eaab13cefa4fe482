#include "train/train_only.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace satformer {
namespace {

TEST(TrainOnly, FreezesWhatNoPatternNames) {
  ParameterStore store{at::Device(at::kCPU)};
  for (const char* name :
       {"model.norm.weight", "model.layers.1.attn.value_residual_mixing.alpha_proj.weight", "head"}) {
    store.add(name, {2, 3}, Init::constant(0), ParamKind::matrix, "part");
  }
  EXPECT_EQ(train_only(store, "*value_residual_mixing*, head"), 12);
  EXPECT_FALSE(store.list()[0].value.requires_grad());
  EXPECT_TRUE(store.list()[1].value.requires_grad());
  EXPECT_TRUE(store.list()[2].value.requires_grad());
  for (const char* bad : {"", ",", "head,", "heed", "*.nowhere"}) {
    try {
      train_only(store, bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::config) << bad;
    }
  }
}

}  // namespace
}  // namespace satformer
