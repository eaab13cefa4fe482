#include "bench/workload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "bench/saved_bytes.h"
#include "models/registry.h"
#include "train/estimate.h"

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

// The estimate before training follows what layers really keep.
TEST(Workload, TheMemoryEstimateOfALayerIsNearWhatIsSaved) {
  for (const Architecture& a : architectures()) {
    WorkloadSpec spec = small_spec();
    spec.architecture = a.name;
    spec.context = 128;
    const auto of_layers = [&](int layers) {
      spec.overrides = concat(R"({"hidden_size": 128, "num_heads": 2, "intermediate_size": 512, "vocab_size": 128,
                                  "qk_norm": true, "num_hidden_layers": )",
                              layers, "}");
      MemoryShape shape;
      shape.batch_size = spec.batch_size;
      shape.seq_length = spec.context;
      const auto model = make_workload_model(spec, at::Device(at::kMeta));
      return std::pair(static_cast<double>(Workload(spec).run(0).saved_bytes),
                       training_memory(*model, shape).activations);
    };
    const auto few = of_layers(1), many = of_layers(10);
    const double ratio = (many.second - few.second) / (many.first - few.first);
    EXPECT_GT(ratio, 0.9) << a.name;
    EXPECT_LT(ratio, 1.1) << a.name;
  }
}

}  // namespace
}  // namespace satformer
