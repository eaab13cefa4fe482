#include "train/run_config.h"

#include <gtest/gtest.h>

#include <functional>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/test_error.h"
#include "train/test_run.h"

namespace satformer {
namespace {

// A file in the authors' layout, with every key they use.
Json authors_layout() {
  return Json::parse(R"({
    "model": {"source": "local_class", "module": "models/x/modeling_x", "class_name": "DenseFormerForCausalLM",
      "config_module": "models/x/configuration_x", "config_class_name": "DenseFormerConfig",
      "from_pretrained": false, "pretrained_path": null,
      "config_overrides": {"vocab_size": 500, "hidden_size": 64, "num_hidden_layers": 3, "num_heads": 4,
        "num_kv_heads": null, "qkv_bias": false, "qk_norm": true, "window_size": null, "rope_theta": 10000.0,
        "max_position_embeddings": 128, "hidden_ratio": 4, "intermediate_size": 96, "hidden_act": "swish",
        "initializer_range": 0.02, "elementwise_affine": true, "norm_eps": 1e-6, "use_cache": false,
        "tie_word_embeddings": true, "fuse_norm": true, "fuse_swiglu": true, "fuse_cross_entropy": true,
        "fuse_linear_cross_entropy": false, "dwa_dilation": 2, "dwa_period": 1}},
    "tokenizer": {"name_or_path": "somebody/some-tokenizer", "save_with_model": true},
    "data": {"data_dir": "data", "train_prefix": "train", "val_prefix": "val", "seq_length": 128},
    "training": {"batch_size": 64, "gradient_accumulation_steps": 2, "gradient_checkpointing": false,
      "learning_rate": 2e-3, "min_lr": 2e-4, "warmup_tokens": 0.05, "max_tokens": 5.0, "lr_decay_style": "cosine",
      "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "grad_clip": 1.0, "dtype": "bfloat16", "compile_model": false,
      "fused_adamw": true},
    "checkpointing": {"checkpoint_dir": "checkpoints/x", "checkpoint_interval": 2000, "save_final_model": true},
    "logging": {"log_interval": 10, "eval_interval": 500, "eval_iters": 100, "wandb_project": "p",
      "wandb_run_name": "r"},
    "system": {"seed": 42, "num_workers": 16, "prefetch_factor": 4, "pin_memory": true, "persistent_workers": true}})");
}

RunSettings from(const Json& json, std::vector<std::string> overrides = {},
                 std::vector<std::string> environment = {}) {
  const TestFolder folder;
  ConfigSources sources;
  sources.file = folder / "config.json";
  write_file_atomic(sources.file, json.dump());
  sources.overrides = std::move(overrides);
  sources.environment = std::move(environment);
  return RunSettings(sources);
}

// The message of the error that `action` must throw.
std::string message(const auto& action, ExitCode code = ExitCode::config) { return error_text(action, code); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(RunConfig, AuthorsLayoutLoads) {
  const RunSettings settings = from(authors_layout());
  const RunConfig& config = settings.config();
  EXPECT_EQ(settings.architecture().name, "denseformer");
  EXPECT_EQ(config.model.config.residual_routing, "dense");
  EXPECT_EQ(config.model.config.dwa_dilation, 2);
  EXPECT_EQ(config.training.decay, "all");  // their recipe
  EXPECT_EQ(config.tokens_per_step(), 64 * 2 * 128);
  EXPECT_EQ(config.total_steps(), 5'000'000'000 / (64 * 2 * 128));
  EXPECT_EQ(config.warmup_steps(), 50'000'000 / (64 * 2 * 128));
  const auto& unused = settings.unused();
  for (const char* key : {"model.module", "training.fused_adamw", "logging.wandb_project", "system.num_workers",
                          "model.config_overrides.fuse_norm"}) {
    EXPECT_EQ(std::count(unused.begin(), unused.end(), key), 1) << key;
  }
  EXPECT_EQ(std::count(unused.begin(), unused.end(), "model.config_overrides.dwa_dilation"), 0);
}

TEST(RunConfig, DecayDefaultsToMatricesElsewhere) {
  Json json = authors_layout();
  json["model"].erase("source");
  json["model"].erase("module");
  EXPECT_EQ(from(json).config().training.decay, "matrices");
  EXPECT_EQ(from(authors_layout(), {"training.decay=matrices"}).config().training.decay, "matrices");
}

TEST(RunConfig, OptionsOfOtherArchitecturesAreListedAsUnused) {
  Json json = authors_layout();
  json["model"]["class_name"] = "TransformerForCausalLM";
  const RunSettings settings = from(json);
  const auto& unused = settings.unused();
  EXPECT_EQ(std::count(unused.begin(), unused.end(), "model.config_overrides.dwa_period"), 1);
  EXPECT_FALSE(settings.to_json()["model"]["config_overrides"].contains("dwa_period"));
}

TEST(RunConfig, FreeCombinationReadsTheKeysOfBoth) {
  Json json = authors_layout();
  json["model"]["class_name"] = "SATFormerForCausalLM";
  json["model"]["config_overrides"]["residual_routing"] = "dense";
  json["model"]["config_overrides"]["value_residual_gate"] = "sigmoid";
  const RunSettings settings = from(json);
  EXPECT_EQ(settings.config().model.config.value_path, "satformer");
  const auto& unused = settings.unused();
  EXPECT_EQ(std::count(unused.begin(), unused.end(), "model.config_overrides.dwa_period"), 0);
  EXPECT_EQ(std::count(unused.begin(), unused.end(), "model.config_overrides.value_residual_gate"), 0);
}

TEST(RunConfig, ResolvedFormGivesTheSameRun) {
  for (const char* name : {"SATFormerForCausalLM", "MUDDFormerForCausalLM", "TransformerForCausalLM"}) {
    Json json = authors_layout();
    json["model"]["class_name"] = name;
    const Json once = from(json).to_json();
    const RunSettings again = from(once);
    EXPECT_EQ(again.to_json(), once) << name;
    EXPECT_TRUE(again.unused().empty()) << again.unused().front();
  }
}

TEST(RunConfig, SourcesFollowTheirOrder) {
  const RunSettings settings =
      from(authors_layout(), {"training.batch_size=3"},
           {"PATH=/bin", "SATFORMER_TRAINING__BATCH_SIZE=5", "SATFORMER_SYSTEM__SEED=9", "SATFORMER_KERNELS=auto"});
  EXPECT_EQ(settings.config().training.batch_size, 3);
  EXPECT_EQ(settings.config().system.seed, 9);
  const std::string shown = settings.show();
  EXPECT_TRUE(contains(shown, "training.batch_size = 3  [--training.batch_size]")) << shown;
  EXPECT_TRUE(contains(shown, "system.seed = 9  [environment SATFORMER_SYSTEM__SEED]"));
  EXPECT_TRUE(contains(shown, "training.adam_eps = 1e-08  [default]"));
}

TEST(RunConfig, TextIsTakenAsItStands) {
  const RunSettings settings = from(authors_layout(), {"data.train_prefix=none", "logging.sample_prompt=1e3",
                                                       "tokenizer.name_or_path=none", "data.val_prefix=\"q\""});
  EXPECT_EQ(settings.config().data.train_prefix, "none");
  EXPECT_EQ(settings.config().data.val_prefix, "q");
  EXPECT_EQ(settings.config().logging.sample_prompt, "1e3");
  EXPECT_FALSE(settings.config().tokenizer.name_or_path.has_value());
}

TEST(RunConfig, UnknownKeysNameTheNearest) {
  Json json = authors_layout();
  json["training"]["learning_rat"] = 1;
  EXPECT_TRUE(contains(message([&] { from(json); }), "'training.learning_rate'"));
  json = authors_layout();
  json["model"]["config_overrides"]["num_head"] = 1;
  EXPECT_TRUE(contains(message([&] { from(json); }), "'model.config_overrides.num_heads'"));
  json = authors_layout();
  json["trainin"] = Json::object();
  EXPECT_TRUE(contains(message([&] { from(json); }), "'training'"));
  json = authors_layout();
  json["training"]["seq_length"] = 8;  // known, but in another section
  EXPECT_TRUE(contains(message([&] { from(json); }), "'data.seq_length'"));
  EXPECT_TRUE(contains(message([&] { from(authors_layout(), {"system.sed=1"}); }), "'system.seed'"));
  EXPECT_TRUE(
      contains(message([&] { from(authors_layout(), {}, {"SATFORMER_SYSTEM__SED=1"}); }), "SATFORMER_SYSTEM__SEED"));
  json = authors_layout();
  json["model"]["class_name"] = "SATFormer2ForCausalLM";
  EXPECT_TRUE(contains(message([&] { from(json); }), "SATFormerForCausalLM"));
}

TEST(RunConfig, ValuesOutOfRange) {
  const auto refused = [](const std::string& assignment) {
    return message([&] { from(authors_layout(), {assignment}); });
  };
  for (const char* bad :
       {"training.batch_size=0", "training.batch_size=-3", "training.batch_size=1.5", "training.learning_rate=-1",
        "training.learning_rate=fast", "training.beta2=1", "training.max_tokens=0", "training.lr_decay_style=cosin",
        "training.dtype=float16", "training.grad_clip=-1", "data.seq_length=0", "logging.log_interval=0",
        "checkpointing.keep_last=-1", "training.decay=some", "data=1"}) {
    EXPECT_FALSE(refused(bad).empty()) << bad;
  }
  std::string text = refused("data.seq_length=129");
  EXPECT_TRUE(contains(text, "129") && contains(text, "128")) << text;
  text = refused("training.min_lr=1");
  EXPECT_TRUE(contains(text, "min_lr") && contains(text, "0.002")) << text;
  text = refused("training.max_tokens=0.000001");
  EXPECT_TRUE(contains(text, "1000") && contains(text, "16384")) << text;
  EXPECT_TRUE(contains(refused("model.config_overrides.num_heads=7"), "7"));
  EXPECT_TRUE(contains(refused("model.from_pretrained=true"), "pretrained_path"));
  EXPECT_TRUE(contains(refused("data.val_prefix=train_val"), "train_val"));
  EXPECT_TRUE(contains(refused("training.gate_decay=1e10"), "gate_decay"));
  EXPECT_TRUE(contains(refused("model.config_overrides.window_size=4611686018427387904"), "window_size"));
  const auto short_windows = [&] { from(authors_layout(), {"data.order=authors", "data.seq_length=1"}); };
  EXPECT_TRUE(contains(message(short_windows), "at least 2"));
}

TEST(RunConfig, RatesOfKindsThatTheModelLacksAreUnused) {
  const auto is_unused = [](const std::string& key, const std::string& model) {
    const RunSettings settings = from(authors_layout(), {"training." + key + "=0.5", "model.class_name=" + model});
    const auto& unused = settings.unused();
    return std::count(unused.begin(), unused.end(), "training." + key) == 1;
  };
  for (const char* key : {"gate_lr_scale", "gate_decay"}) {
    EXPECT_FALSE(is_unused(key, "SATFormerForCausalLM")) << key;
    EXPECT_TRUE(is_unused(key, "ResFormerForCausalLM")) << key;
  }
  for (const char* key : {"scalar_lr_scale", "scalar_decay"}) {
    EXPECT_TRUE(is_unused(key, "TransformerForCausalLM")) << key;
    EXPECT_FALSE(is_unused(key, "DenseFormerForCausalLM")) << key;
  }
}

TEST(RunConfig, TheAuthorsOrderTakesTheirWorkers) {
  Json json = authors_layout();
  json["system"]["num_workers"] = 6;
  const auto unused_workers = [](const RunSettings& settings) {
    const auto& unused = settings.unused();
    return std::count(unused.begin(), unused.end(), "system.num_workers");
  };
  const RunSettings ours = from(json);
  EXPECT_EQ(ours.config().data.order, "shuffled");
  EXPECT_EQ(ours.config().data.order_workers, 16);
  EXPECT_EQ(unused_workers(ours), 1);
  const RunSettings theirs = from(json, {"data.order=authors"});
  EXPECT_EQ(theirs.config().data.order_workers, 6);
  EXPECT_EQ(unused_workers(theirs), 0);
  EXPECT_TRUE(contains(theirs.show(), "data.order_workers = 6  [system.num_workers of "));
  const RunSettings given = from(json, {"data.order=authors", "data.order_workers=2", "data.order_ranks=4"});
  EXPECT_EQ(given.config().data.order_workers, 2);
  EXPECT_EQ(given.config().data.order_ranks, 4);
  EXPECT_EQ(unused_workers(given), 1);
  EXPECT_TRUE(contains(message([&] { from(json, {"data.order=author"}); }), "authors"));
}

TEST(RunConfig, HelpNamesEveryFieldThatActs) {
  const std::string help = describe_run_config();
  for (const char* key : {"--training.decay=", "--data.seq_length=", "--model.config_overrides.num_heads=",
                          "--checkpointing.keep_last=", "--system.device="}) {
    EXPECT_TRUE(contains(help, key)) << key;
  }
}

}  // namespace
}  // namespace satformer
