#include "base/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_error.h"

namespace satformer {
namespace {

struct Optimizer {
  double rate = 1e-3;
  std::vector<std::int64_t> layers = {1, 2};
  void visit(FieldVisitor& visitor) {
    visitor.field("rate", &rate, "step size", {.min = 0, .open_min = true});
    visitor.field("layers", &layers, "which layers", {.min = 0, .max = 9});
  }
};

struct Settings {
  std::int64_t batch_size = 8;
  bool tied = true;
  std::string dtype = "float32";
  std::optional<std::int64_t> window;
  std::optional<double> theta = 10000.0;
  std::optional<std::string> path;
  NumberOrAuto spread;
  std::string backend = "gloo";
  Optimizer optimizer, other;
  void visit(FieldVisitor& visitor) {
    visitor.field("batch_size", &batch_size, "sequences a step", {.min = 1, .max = 1024});
    visitor.field("tied", &tied, "share embedding and head");
    visitor.field("dtype", &dtype, "number format", {.choices = {"float32", "bfloat16"}});
    visitor.field("window", &window, "attention window", {.min = 1});
    visitor.field("theta", &theta, "rope base");
    visitor.field("path", &path, "a file");
    visitor.field("spread", &spread, "deviation", {.min = 0});
    visitor.field("backend", &backend, "ranks", {.unused = true});
    visitor.section("optimizer", optimizer);
    visitor.section("other", other);
  }
};

std::string error_of(const auto& action, ExitCode code = ExitCode::config) { return error_text(action, code); }

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\n  lacks " << part;
}

Json json(const std::string& text) { return parse_json(text, "test"); }

TEST(ConfigBinding, SourcesAndOrigins) {
  Settings settings;
  ConfigBinding binding(settings);
  EXPECT_EQ(binding.origin("batch_size"), "default");
  binding.apply_json(json(R"({"batch_size":16,"optimizer":{"rate":1},"window":null,"theta":500000})"), "run.json");
  binding.apply_environment({"HOME=/", "SATFORMER_OPTIMIZER__RATE=0.5", "SATFORMER_CPU_ISA=avx2"});
  binding.apply_override("--optimizer.rate=0.25");
  binding.apply_override("tied=false");
  EXPECT_EQ(settings.batch_size, 16);
  EXPECT_EQ(settings.optimizer.rate, 0.25);
  EXPECT_EQ(settings.other.rate, 1e-3);
  EXPECT_EQ(settings.theta, 500000.0);
  EXPECT_FALSE(settings.tied);
  EXPECT_EQ(binding.origin("batch_size"), "run.json");
  EXPECT_EQ(binding.origin("optimizer.rate"), "--optimizer.rate");
  expect_contains(binding.show(), "batch_size = 16  [run.json]");
  expect_contains(binding.describe(), "--dtype=\"float32\"");
  EXPECT_EQ(binding.describe().find("backend"), std::string::npos);
}

TEST(ConfigBinding, ValuesThatNoJsonCanHoldAreRefused) {
  Settings settings;
  ConfigBinding binding(settings);
  const auto message = [&](const std::string& assignment) {
    return error_text([&] { binding.apply_override(assignment); }, ExitCode::config);
  };
  expect_contains(message("path=a\xDD"), "not UTF-8");
  expect_contains(message("batch_size=\xDD"
                          "1"),
                  "not UTF-8");
  message("batch_size=" + std::string(100'000, '['));
}

TEST(ConfigBinding, JsonRoundTrip) {
  Settings settings;
  ConfigBinding binding(settings);
  binding.apply_json(json(R"({"path":"a b","window":7,"optimizer":{"layers":[3]},"theta":null})"), "x");
  Settings copy;
  ConfigBinding(copy).apply_json(binding.to_json(), "copy");
  EXPECT_EQ(ConfigBinding(copy).to_json(), binding.to_json());
  EXPECT_EQ(copy.path, "a b");
  EXPECT_EQ(copy.theta, std::nullopt);
  EXPECT_EQ(copy.optimizer.layers, std::vector<std::int64_t>{3});
}

TEST(ConfigBinding, NumbersThatMayBeAutomatic) {
  Settings settings;
  ConfigBinding binding(settings);
  EXPECT_TRUE(binding.to_json()["spread"].is_null());
  binding.apply_override("spread=auto");
  EXPECT_TRUE(settings.spread.automatic);
  EXPECT_EQ(binding.to_json()["spread"], "auto");
  binding.apply_override("spread=0.25");
  EXPECT_FALSE(settings.spread.automatic);
  EXPECT_EQ(settings.spread.number, 0.25);
  EXPECT_EQ(binding.to_json()["spread"], 0.25);
  binding.apply_json(json(R"({"spread":null})"), "x");
  EXPECT_FALSE(settings.spread.automatic || settings.spread.number.has_value());
}

TEST(ConfigBinding, OverridesMayLeaveOutASection) {
  struct Outer {
    Settings inner;
    std::int64_t batch_size = 1;
    void visit(FieldVisitor& visitor) {
      visitor.field("batch_size", &batch_size, "rows");
      visitor.section("inner", inner);
    }
  };
  struct Run {
    Outer model;
    void visit(FieldVisitor& visitor) { visitor.section("model", model); }
  } run;
  ConfigBinding binding(run);
  binding.apply_override("--model.tied=false");
  EXPECT_FALSE(run.model.inner.tied);
  binding.apply_override("model.batch_size=3");  // one that is there goes first
  EXPECT_EQ(run.model.batch_size, 3);
  EXPECT_EQ(run.model.inner.batch_size, 8);
  expect_contains(error_of([&] { binding.apply_override("model.rate=1"); }), "ambiguous");
  expect_contains(error_of([&] { binding.apply_override("modal.tied=false"); }), "unknown key");
  expect_contains(error_of([&] { binding.apply_override("model.batchsize_=1"); }),
                  "Did you mean 'model.batch_size'?");
  expect_contains(error_of([&] { binding.apply_override("model.dtyp=1"); }), "Did you mean 'model.inner.dtype'?");
}

TEST(ConfigBinding, ASectionIsNoField) {
  Settings settings;
  ConfigBinding binding(settings);
  expect_contains(error_of([&] { binding.apply_override("optimizer=2"); }),
                  "--optimizer is a section: set its fields, such as --optimizer.");
}

TEST(ConfigBinding, UnknownKeysNameTheNearest) {
  Settings settings;
  ConfigBinding binding(settings);
  const std::string message = error_of([&] { binding.apply_json(json(R"({"batchsize":1})"), "run.json"); });
  expect_contains(message, "run.json: unknown key 'batchsize'");
  expect_contains(message, "Did you mean 'batch_size'?");
  expect_contains(error_of([&] { binding.apply_json(json(R"({"optimizer":{"rat":1}})"), "x"); }),
                  "Did you mean 'optimizer.rate'?");
  expect_contains(error_of([&] { binding.apply_override("--optimiser.rate=1"); }), "Did you mean 'optimizer.rate'?");
  expect_contains(error_of([&] { binding.apply_environment({"SATFORMER_OPTIMIZER__RAET=1"}); }),
                  "Did you mean 'SATFORMER_OPTIMIZER__RATE'?");
  expect_contains(error_of([&] { binding.apply_environment({"SATFORMER_OPTIMIZER_RATE=1"}); }),
                  "Did you mean 'SATFORMER_OPTIMIZER__RATE'?");
}

TEST(ConfigBinding, WrongTypes) {
  Settings settings;
  ConfigBinding binding(settings);
  const auto refused = [&](const std::string& text, const std::string& expected) {
    expect_contains(error_of([&] { binding.apply_json(json(text), "run.json"); }), expected);
  };
  refused(R"({"batch_size":"8"})", "batch_size must be an integer, not \"8\"");
  refused(R"({"batch_size":1.5})", "an integer");
  refused(R"({"batch_size":null})", "an integer");
  refused(R"({"batch_size":18446744073709551615})", "an integer");
  refused(R"({"batch_size":1e300})", "an integer");
  refused(R"({"tied":1})", "true or false");
  refused(R"({"dtype":1})", "a string");
  refused(R"({"window":"x"})", "an integer or null");
  refused(R"({"theta":true})", "a number or null");
  refused(R"({"path":[]})", "a string or null");
  refused(R"({"spread":"wide"})", "a number, \"auto\" or null, not \"wide\"");
  refused(R"({"optimizer":{"layers":[1,"2"]}})", "a list of integers");
  refused(R"({"optimizer":{"layers":3}})", "a list of integers");
  refused(R"({"optimizer":3})", "optimizer must be a JSON object");
  refused("[]", "must be a JSON object");
  EXPECT_EQ(settings.batch_size, 8);
}

TEST(ConfigBinding, Bounds) {
  Settings settings;
  ConfigBinding binding(settings);
  const auto refused = [&](const std::string& text, const std::string& expected) {
    expect_contains(error_of([&] { binding.apply_json(json(text), "run.json"); }), expected);
  };
  refused(R"({"batch_size":0})", "batch_size = 0 is out of range: it must be at least 1 and at most 1024");
  refused(R"({"batch_size":1025})", "at most 1024");
  refused(R"({"optimizer":{"rate":0}})", "greater than 0");
  refused(R"({"optimizer":{"layers":[0,10]}})", "at most 9");
  refused(R"({"window":0})", "at least 1");
  refused(R"({"spread":-1})", "at least 0");
  refused(R"({"dtype":"bfloat61"})", "Did you mean 'bfloat16'?");
  binding.apply_json(json(R"({"batch_size":1024,"window":1,"dtype":"bfloat16"})"), "x");
  binding.apply_json(json(R"({"batch_size":1e3})"), "x");
  EXPECT_EQ(settings.batch_size, 1000);
}

TEST(ConfigBinding, OverridesFromTheCommandLine) {
  Settings settings;
  ConfigBinding binding(settings);
  binding.apply_override("--batch-size=4");
  EXPECT_EQ(settings.batch_size, 4);
  binding.apply_override("path=plain text");
  EXPECT_EQ(settings.path, "plain text");
  binding.apply_override("--path=7");
  EXPECT_EQ(settings.path, "7");
  binding.apply_override("window=None");
  EXPECT_EQ(settings.window, std::nullopt);
  binding.apply_override("tied=False");
  EXPECT_FALSE(settings.tied);
  binding.apply_override("optimizer.layers=[4,5]");
  EXPECT_EQ(settings.optimizer.layers, (std::vector<std::int64_t>{4, 5}));
  expect_contains(error_of([&] { binding.apply_override("rate=1"); }), "ambiguous");
  expect_contains(error_of([&] { binding.apply_override("batch_size"); }, ExitCode::usage), "section.key=value");
}

TEST(ConfigBinding, UnusedFieldsAreListedOnceGiven) {
  Settings settings;
  ConfigBinding binding(settings);
  EXPECT_TRUE(binding.unused().empty());
  binding.apply_json(json(R"({"backend":"nccl"})"), "x");
  EXPECT_EQ(binding.unused(), std::vector<std::string>{"backend"});
  expect_contains(binding.show(), "no effect here");
}

}  // namespace
}  // namespace satformer
