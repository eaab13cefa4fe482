#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

std::span<const std::byte> bytes_of(const auto& values) { return std::as_bytes(std::span(values)); }

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string text(8, '\0');
  const std::uint64_t size = header.size();
  std::memcpy(text.data(), &size, 8);
  return text + header + std::string(data_bytes, '\1');
}

std::string error_of(const std::string& contents) {
  const TestFolder folder;
  write_file_atomic(folder / "x.safetensors", contents);
  try {
    const SafetensorsFile file(folder / "x.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
    EXPECT_NE(std::string(error.what()).find("x.safetensors"), std::string::npos);
    return error.what();
  }
  return "accepted";
}

void expect_rejected(const std::string& header, std::size_t data_bytes, const std::string& reason) {
  EXPECT_NE(error_of(file_of(header, data_bytes)).find(reason), std::string::npos)
      << header << "\n  gave: " << error_of(file_of(header, data_bytes)) << "\n  expected: " << reason;
}

TEST(Safetensors, RoundTrip) {
  const TestFolder folder;
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> steps = {-7};
  const std::vector<std::uint8_t> flags = {1, 0, 1};
  const std::vector<std::uint16_t> halves = {0x3f80};
  write_safetensors(folder / "m",
                    {{"flags", "BOOL", {3}, bytes_of(flags)},
                     {"weight", "F32", {2, 3}, bytes_of(weights)},
                     {"scalar", "I64", {}, bytes_of(steps)},
                     {"empty", "F32", {0, 4}, {}},
                     {"half", "BF16", {1, 1}, bytes_of(halves)},
                     {"na\"me\n\xC3\xA9", "F32", {0}, {}}},
                    {{"note", "two\nlines"}});
  const SafetensorsFile file(folder / "m");
  ASSERT_EQ(file.tensors().size(), 6u);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"note", "two\nlines"}}));
  EXPECT_EQ(file.tensors()[0].name, "scalar");
  const TensorView* weight = file.find("weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(weight->dtype, "F32");
  EXPECT_EQ(std::memcmp(weight->data.data(), weights.data(), 24), 0);
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("empty")->data.size(), 0u);
  EXPECT_NE(file.find("na\"me\n\xC3\xA9"), nullptr);
  EXPECT_EQ(file.find("absent"), nullptr);
  const std::string text = read_file(folder / "m");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, text.data(), 8);
  EXPECT_EQ(header_bytes % 8, 0u);
}

TEST(Safetensors, NoTensors) {
  const TestFolder folder;
  write_safetensors(folder / "m", {});
  EXPECT_TRUE(SafetensorsFile(folder / "m").tensors().empty());
}

TEST(Safetensors, WriterRefusesWhatDoesNotFit) {
  const TestFolder folder;
  const std::vector<float> values = {1, 2};
  EXPECT_THROW(write_safetensors(folder / "m", {{"a", "F32", {3}, bytes_of(values)}}), Error);
  EXPECT_THROW(write_safetensors(folder / "m", {{"a", "F33", {2}, bytes_of(values)}}), Error);
  EXPECT_THROW(write_safetensors(folder / "m", {{"\xFF", "F32", {2}, bytes_of(values)}}), Error);
  EXPECT_THROW(
      write_safetensors(folder / "m", {{"a", "F32", {2}, bytes_of(values)}, {"a", "F32", {2}, bytes_of(values)}}),
      Error);
  EXPECT_FALSE(std::filesystem::exists(folder / "m"));
}

TEST(Safetensors, AcceptsValidHeaders) {
  EXPECT_EQ(error_of(file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4)), "accepted");
  EXPECT_EQ(error_of(file_of(R"({"__metadata__":null})", 0)), "accepted");
  EXPECT_EQ(error_of(file_of(R"({"a":{"dtype":"F4","shape":[4],"data_offsets":[0,2]}})", 2)), "accepted");
  // Further keys of a tensor are skipped, as the official reader does, whatever is in them.
  for (const std::string extra : {"1", "null", "-1.5", "true", R"("s")", "[]", R"({"shape":[{"dtype":1}]})"}) {
    const std::string header =
        R"({"a":{"dtype":"F32","x":)" + extra + R"(,"shape":[1],"y":)" + extra + R"(,"data_offsets":[0,4]}})";
    EXPECT_EQ(error_of(file_of(header, 4)), "accepted") << header;
  }
  EXPECT_EQ(error_of(file_of(R"({"b":{"data_offsets":[4,8],"dtype":"F32","shape":[]},)"
                             R"("e":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)"
                             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )",
                             8)),
            "accepted");
}

TEST(Safetensors, RefusesBrokenFiles) {
  EXPECT_NE(error_of("abc").find("at least 8 bytes"), std::string::npos);
  EXPECT_NE(error_of("").find("at least 8 bytes"), std::string::npos);
  EXPECT_NE(error_of(std::string(8, '\xFF') + "{}").find("at most 100000000"), std::string::npos);
  EXPECT_NE(error_of(std::string("\x10\0\0\0\0\0\0\0{}", 10)).find("ends inside its header"), std::string::npos);
  EXPECT_NE(error_of(std::string(8, '\0')).find("does not start with '{'"), std::string::npos);
  expect_rejected(" {}", 0, "does not start with '{'");
  expect_rejected("[]", 0, "does not start with '{'");
  expect_rejected("{", 0, "not valid JSON");
  expect_rejected("{}x", 0, "not valid JSON");
  expect_rejected(std::string("{}\0 ", 4), 0, "zero byte at its byte 3");
  expect_rejected("{\"\xFF\":1}", 0, "not valid JSON");
  expect_rejected("{}", 4, "4 bytes follow");
}

TEST(Safetensors, RefusesHostileTensors) {
  const auto one = [](const std::string& body) { return "{\"a\":{" + body + "}}"; };
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 3, "the file is cut");
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), 5, "1 bytes follow");
  expect_rejected(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, "make 8");
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"), 8, "gap");
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, "before it begins");
  expect_rejected(one(R"("dtype":"F23","shape":[1],"data_offsets":[0,4])"), 4, "Did you mean 'F32'");
  expect_rejected(one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "overflows");
  expect_rejected(one(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0])"), 0, "overflows");
  expect_rejected(one(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4])"), 4, "too large");
  expect_rejected(one(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4, "the number -1");
  expect_rejected(one(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])"), 4, "the number 1.0");
  expect_rejected(one(R"("dtype":"F32","shape":["1"],"data_offsets":[0,4])"), 4, "a string");
  expect_rejected(one(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4, "an array");
  expect_rejected(one(R"("dtype":"F32","shape":{},"data_offsets":[0,4])"), 4, "an object");
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4, "two data_offsets");
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), 4, "two data_offsets");
  expect_rejected(one(R"("dtype":"F32","shape":[1])"), 4, "needs dtype, shape and data_offsets");
  expect_rejected(one(R"("dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4])"), 4, "twice");
  expect_rejected(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,1])"), 1, "no whole number of bytes");
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  expect_rejected(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":)" + deep), 4, "nested deeper");
  expect_rejected(one(R"("dtype":null,"shape":[1],"data_offsets":[0,4])"), 4, "null");
  expect_rejected(R"({"a":1})", 0, "a number");
  expect_rejected(R"({"a":[]})", 0, "an array");
  const std::string a = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_rejected("{" + a + "," + a + "}", 4, "given twice");
  expect_rejected("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "overlap");
  expect_rejected("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 8, "overlap");
  expect_rejected("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[5,9]}})", 9, "gap");
}

TEST(Safetensors, RefusesBadMetadata) {
  expect_rejected(R"({"__metadata__":{"a":1}})", 0, "metadata 'a' is a number");
  expect_rejected(R"({"__metadata__":{"a":{}}})", 0, "an object");
  expect_rejected(R"({"__metadata__":[]})", 0, "an array");
  expect_rejected(R"({"__metadata__":{"a":"1","a":"2"}})", 0, "given twice");
  expect_rejected(R"({"__metadata__":{},"__metadata__":{}})", 0, "given twice");
}

// Every cut and every changed byte is either refused with an Error or harmless.
TEST(Safetensors, SurvivesDamage) {
  const TestFolder folder;
  const std::vector<float> values = {1, 2};
  write_safetensors(folder / "m", {{"a", "F32", {2}, bytes_of(values)}, {"b", "U8", {0}, {}}});
  const std::string whole = read_file(folder / "m");
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(error_of(whole.substr(0, size)), "accepted");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char change : {'\x01', '\x80', '\xFF'}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      error_of(damaged);
    }
  }
}

TEST(Safetensors, DeepNestingIsNoRecursion) {
  expect_rejected("{\"a\":" + std::string(1'000'000, '['), 0, "an array");
}

}  // namespace
}  // namespace satformer
