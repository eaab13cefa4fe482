#include "compare/spec.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/test_error.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

Json small_spec() {
  return parse_json(R"({
    "name": "two",
    "base": {"training.learning_rate": 0.001, "training": {"batch_size": 4}},
    "arms": ["transformer", {"name": "mine", "architecture": "satformer", "set": {"model.config_overrides": {"value_residual_gate": "tanh"}}}],
    "seeds": [3, 4]
  })",
                    "spec.json");
}

std::string refused(const std::function<void(Json&)>& change) {
  Json json = small_spec();
  change(json);
  return error_text([&] { parse_compare_spec(json, "spec.json"); }, ExitCode::config);
}

TEST(MergeConfig, DottedKeysAndSectionsMeet) {
  Json config = {{"training", {{"batch_size", 4}, {"beta1", 0.9}}}};
  merge_config(config,
               {{"training.batch_size", 8}, {"training", {{"beta2", 0.99}}}, {"data.synthetic.task", "mqar"}});
  EXPECT_EQ(
      config,
      parse_json(R"({"training":{"batch_size":8,"beta1":0.9,"beta2":0.99},"data":{"synthetic":{"task":"mqar"}}})",
                 ""));
  merge_config(config, {{"training", {{"schedule.kind", "x"}}}});
  EXPECT_EQ(config["training"]["schedule"]["kind"], "x");
}

TEST(CompareSpec, ReadsArmsAndFillsWhatIsLeftOut) {
  const CompareSpec spec = parse_compare_spec(small_spec(), "spec.json");
  ASSERT_EQ(spec.arms.size(), 2u);
  EXPECT_EQ(spec.arms[0].set["model"]["class_name"], "transformer");
  EXPECT_EQ(spec.arms[1].name, "mine");
  EXPECT_EQ(spec.arms[1].set["model"]["class_name"], "satformer");
  EXPECT_EQ(spec.arms[1].set["model"]["config_overrides"]["value_residual_gate"], "tanh");
  EXPECT_EQ(spec.base["training"]["learning_rate"], 0.001);
  EXPECT_EQ(spec.base["training"]["batch_size"], 4);
  EXPECT_EQ(spec.baseline, "transformer");
  EXPECT_EQ(spec.data.size(), 1u);
  EXPECT_EQ(spec.sizes.size(), 1u);
  EXPECT_EQ(spec.target.metric, "val/loss");
  EXPECT_FALSE(spec.target.value);
  EXPECT_EQ(spec.seeds, (std::vector<std::int64_t>{3, 4}));
}

TEST(CompareSpec, WrittenSpecificationsGiveTheSameRuns) {
  for (const Preset& preset : compare_presets()) {
    const CompareSpec spec = read_compare_spec(std::string(preset.name));
    EXPECT_EQ(spec.name, preset.name);
    EXPECT_FALSE(spec.title.empty());
    EXPECT_EQ(parse_compare_spec(spec.to_json(), "again").to_json(), spec.to_json()) << preset.name;
  }
}

TEST(CompareSpec, WrongOnesNameWhatIsWrong) {
  EXPECT_NE(refused([](Json& j) { j["armz"] = 1; }).find("unknown key 'armz'. Did you mean 'arms'?"),
            std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["arms"] = Json::array(); }).find("at least one architecture"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["arms"][1]["name"] = "transformer"; }).find("stands twice"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["arms"][1]["name"] = "a/b"; }).find("without slashes"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["arms"][1].erase("name"), j["arms"][1].erase("architecture"); }).find("lacks"),
            std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["baseline"] = "transfomer"; }).find("Did you mean 'transformer'?"),
            std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["arms"][1]["against"] = "x"; }).find("'mine', against"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["seeds"] = {1, 1}; }).find("stands twice"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["seeds"] = Json::array(); }).find("seeds"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["seeds"] = "1"; }).find("must be a list"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["target"] = {{"metric", "loss"}}; }).find("validation"), std::string::npos);
  EXPECT_NE(refused([](Json& j) {
              j["target"] = {{"metric", "val/loss"}, {"value", "x"}};
            }).find("must be a number"),
            std::string::npos);
  EXPECT_NE(refused([](Json& j) {
              j["measure"] = {{"phases", {"trian"}}};
            }).find("Did you mean 'train'?"),
            std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["measure"] = {{"rounds", 0}}; }).find("between 1 and 1000"), std::string::npos);
  EXPECT_NE(refused([](Json& j) {
              j["data"] = {{{"name", "d"}, {"prepare", {"--output", "x"}}}};
            }).find("--output"),
            std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["base"] = 1; }).find("must be an object"), std::string::npos);
  EXPECT_NE(refused([](Json& j) { j["parallel"] = 1.5; }).find("whole number"), std::string::npos);
  EXPECT_NE(error_text([] { parse_compare_spec(Json::array(), "s"); }, ExitCode::config).find("must be an object"),
            std::string::npos);
  EXPECT_NE(error_text([] { read_compare_spec("smok"); }, ExitCode::config).find("Did you mean 'smoke'?"),
            std::string::npos);
}

}  // namespace
}  // namespace satformer
