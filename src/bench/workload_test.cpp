#include "bench/workload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "bench/saved_bytes.h"

namespace satformer {
namespace {

WorkloadSpec small_spec() {
  WorkloadSpec spec;
  spec.overrides = R"({"hidden_size": 32, "num_hidden_layers": 2, "num_heads": 2, "intermediate_size": 64,
                       "vocab_size": 128})";
  spec.batch_size = 2;
  spec.context = 16;
  return spec;
}

TEST(SavedBytes, CountsWhatStillLives) {
  at::Tensor kept, before = at::empty({100}, at::kFloat);
  const std::int64_t live = live_bytes_after([&] {
    kept = at::empty({1000}, at::kFloat);
    const at::Tensor gone = at::empty({5000}, at::kFloat);
    before.reset();  // not ours: not subtracted
  });
  EXPECT_EQ(live, 4000);
  EXPECT_EQ(live_bytes_after([] {}), 0);
}

TEST(Workload, RecomputationSavesLess) {
  WorkloadSpec spec = small_spec();
  const std::int64_t all = Workload(spec).run(0).saved_bytes;
  spec.recompute = true;
  const std::int64_t few = Workload(spec).run(0).saved_bytes;
  // At least the input of each layer and of the head.
  EXPECT_GE(few, 3 * 2 * 16 * 32 * 4);
  EXPECT_LT(few, all);
}

TEST(Workload, BytesOfADecodedTokenFollowTheTypeOfTheWeights) {
  WorkloadSpec spec = small_spec();
  spec.phase = "decode";
  const auto bytes = [&](const std::string& dtype) {
    spec.dtype = dtype;
    return workload_bytes_per_token(spec, *make_workload_model(spec, at::Device(at::kMeta)));
  };
  EXPECT_EQ(bytes("bfloat16") * 2, bytes("float32"));
  EXPECT_EQ(bytes("pure-bfloat16"), bytes("bfloat16"));
}

}  // namespace
}  // namespace satformer
