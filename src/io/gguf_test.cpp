#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

const GgufMetadata all_kinds = {{"general.architecture", std::string("llama")},
                                {"a.flag", true},
                                {"a.count", std::uint32_t{7}},
                                {"a.eps", 1e-6f},
                                {"a.tokens", std::vector<std::string>{"x", "", "\xE2\x96\x81y"}},
                                {"a.scores", std::vector<float>{-1, 0.5f}},
                                {"a.types", std::vector<std::int32_t>{1, -3}},
                                {"a.bytes", std::vector<std::uint8_t>{0, 255}},
                                {"a.nothing", std::vector<std::string>{}}};
const std::vector<GgufTensor> three_tensors = {
    {"norm", GgufType::f32, {3}}, {"w", GgufType::q8_0, {2, 64}}, {"b", GgufType::bf16, {5, 3}}};

std::string written(const TestFolder& folder) {
  const std::string path = folder / "m.gguf";
  write_gguf(path, all_kinds, three_tensors, [](std::size_t i) { return counting(three_tensors[i].bytes()); });
  return path;
}

TEST(Gguf, ComesBackAsItWasWritten) {
  const TestFolder folder;
  const GgufFile file(written(folder));
  EXPECT_EQ(file.metadata(), all_kinds);
  EXPECT_EQ(*file.get<std::uint32_t>("a.count"), 7u);
  EXPECT_EQ(file.get<float>("a.count"), nullptr);
  EXPECT_EQ(file.get<float>("none"), nullptr);
  ASSERT_EQ(file.tensors().size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const GgufTensor& t = *file.find(three_tensors[i].name);
    EXPECT_EQ(t.shape, three_tensors[i].shape);
    EXPECT_EQ(t.type, three_tensors[i].type);
    const auto bytes = counting(t.bytes());
    ASSERT_EQ(t.data.size(), bytes.size());
    EXPECT_EQ(std::memcmp(t.data.data(), bytes.data(), bytes.size()), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data.data()) % 32, 0u);
  }
  EXPECT_EQ(file.find("q"), nullptr);
}

TEST(Gguf, TheHeadIsThatOfTheFormat) {
  const TestFolder folder;
  const std::string bytes = read_file(written(folder));
  EXPECT_EQ(bytes.substr(0, 8), std::string("GGUF\3\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8, 16), std::string("\3\0\0\0\0\0\0\0\x9\0\0\0\0\0\0\0", 16));
  // Key, type 8 (text), value.
  EXPECT_EQ(bytes.substr(24, 8 + 20 + 4 + 8 + 5),
            std::string("\x14\0\0\0\0\0\0\0general.architecture\x8\0\0\0\5\0\0\0\0\0\0\0llama", 45));
  // The tensor w: 64 columns come before 2 rows.
  EXPECT_NE(bytes.find(std::string("w\2\0\0\0\x40\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\x8\0\0\0\x20", 26)),
            std::string::npos);
}

TEST(Gguf, WhatIsDamagedIsRefused) {
  const TestFolder folder;
  const std::string whole = read_file(written(folder)), path = folder / "bad.gguf";
  const auto message = [&](const std::string& bytes) -> std::string {
    write_file_atomic(path, bytes);
    try {
      GgufFile file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::checkpoint);
      return error.what();
    }
    return {};
  };
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7)
    EXPECT_NE(message(whole.substr(0, size)), "") << size;
  std::string old = whole;
  old[4] = 2;
  EXPECT_NE(message(old).find("version 2"), std::string::npos);
  EXPECT_NE(message("GGML" + whole.substr(4)).find("does not begin"), std::string::npos);
  std::string kind = whole;
  kind[whole.find("a.flag") + 6] = 12;
  EXPECT_NE(message(kind).find("a.flag"), std::string::npos);
}

}  // namespace
}  // namespace satformer
