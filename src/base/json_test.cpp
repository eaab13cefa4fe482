#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/test_error.h"

namespace satformer {
namespace {

std::string error_of(const std::string& text) {
  SCOPED_TRACE(text);
  return error_text([&] { parse_json(text, "file.json"); }, ExitCode::config);
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b":1,"a":[true,null,"x"]})", "x").dump(), R"({"b":1,"a":[true,null,"x"]})");
}

TEST(ParseJson, ErrorsGiveLineAndColumn) {
  EXPECT_EQ(error_of("{\n  \"a\": 1,\n  \"b\" 2\n}").rfind("file.json:3:7", 0), 0u)
      << error_of("{\n  \"a\": 1,\n  \"b\" 2\n}");
  EXPECT_EQ(error_of("").rfind("file.json:1:1", 0), 0u);
  error_of("{\"a\":\"\xFF\"}");
  error_of("{} {}");
  error_of("{\"a\":1,}");
  error_of("nul");
}

TEST(ParseJson, RefusesDuplicateKeys) {
  EXPECT_NE(error_of(R"({"a":1,"b":2,"a":3})").find("'a' is given twice"), std::string::npos);
  EXPECT_NE(error_of(R"({"x":{"a":1,"a":1}})").find("'a' is given twice"), std::string::npos);
  EXPECT_NE(error_of(R"([{"a":{},"a":{}}])").find("'a' is given twice"), std::string::npos);
  parse_json(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})", "x");
}

TEST(ParseJson, RefusesDeepNesting) {
  parse_json(std::string(200, '[') + std::string(200, ']'), "x");
  EXPECT_NE(error_of(std::string(1000, '[') + std::string(1000, ']')).find("deeper than"), std::string::npos);
  error_of(std::string(100'000, '['));
}

TEST(ParseJson, RefusesWhatFollowsAZeroByte) {
  EXPECT_NE(error_of(std::string("{\"a\":1}\0{\"b\":2}", 16)).find("zero byte at byte 8"), std::string::npos);
}

TEST(VisitLeaves, NamesEachValueByItsKeys) {
  std::string seen;
  visit_leaves(Json::parse(R"({"b": {"c": 1, "a": {"d": [2]}}, "e": {}})"),
               [&](const std::string& key, const Json& value) { seen += key + "=" + value.dump() + ";"; });
  EXPECT_EQ(seen, "b.c=1;b.a.d=[2];e={};");
}

TEST(DottedKey, IsAsUsersWriteIt) { EXPECT_EQ(dotted_key("/training/adam_betas/0"), "training.adam_betas.0"); }

TEST(ReadJsonFile, NamesAMissingFile) {
  try {
    read_json_file("/nonexistent/x.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::system);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/x.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace satformer
