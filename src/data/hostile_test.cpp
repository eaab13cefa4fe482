// Files made to do harm: each is refused with an Error of the right kind, in less than a second.
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "data/text_source.h"
#include "data/tokenize.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "io/shards.h"
#include "io/test_folder.h"
#include "io/tokenizer.h"
#include "io/torch_archive.h"

namespace satformer {
namespace {

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::memcpy(text.data(), &value, bytes);
  return text;
}

std::string repeated(const std::string& part, std::size_t times) {
  std::string text;
  text.reserve(part.size() * times);
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

std::string tensors(const std::string& header, std::size_t data = 0) {
  return little_endian(header.size(), 8) + header + std::string(data, '\0');
}

// A ZIP archive of one stored member, with the sizes that its directory claims.
std::string archive(const std::string& name, const std::string& content, std::uint32_t claimed,
                    std::uint32_t entries = 1, std::uint32_t offset = 0) {
  const auto sizes = little_endian(0, 4) + little_endian(claimed, 4) + little_endian(claimed, 4);
  const std::string local = "PK\3\4" + std::string(10, '\0') + sizes + little_endian(name.size(), 2) +
                            std::string(2, '\0') + name + content;
  const std::string directory = "PK\1\2" + std::string(12, '\0') + sizes + little_endian(name.size(), 2) +
                                std::string(12, '\0') + little_endian(offset, 4) + name;
  return local + directory + "PK\5\6" + std::string(4, '\0') + little_endian(entries, 2) + little_endian(entries, 2) +
         little_endian(directory.size(), 4) + little_endian(local.size(), 4) + std::string(2, '\0');
}

std::string pickle(const std::string& program) {
  return archive("archive/data.pkl", program, static_cast<std::uint32_t>(program.size()));
}

std::string manifest(const std::string& files, const std::string& width = "2") {
  return R"({"format":"satformer-shards","version":1,"bytes_per_id":)" + width +
         R"(,"tokenizer":{"sha256":""},"files":)" + files + "}";
}

// The sanitizers make everything several times slower.
#ifdef __SANITIZE_ADDRESS__
constexpr double most_seconds = 6;
#else
constexpr double most_seconds = 1;
#endif

struct Hostile {
  const char* name;
  std::string content;
};

void refused_soon(const std::vector<Hostile>& files, ExitCode code, const std::string& file_name,
                  const std::function<void(const std::string& path)>& read) {
  for (const Hostile& file : files) {
    const TestFolder folder;
    write_file_atomic(folder / file_name, file.content);
    const std::clock_t start = std::clock();  // of this process: the machine may be busy
    try {
      read(folder / file_name);
      ADD_FAILURE() << file.name << ": accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << file.name << ": " << error.what();
      EXPECT_LT(std::strlen(error.what()), 2000u) << file.name;
    } catch (const std::exception& error) {
      ADD_FAILURE() << file.name << ": " << error.what();
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, most_seconds) << file.name;
  }
}

TEST(HostileFiles, Safetensors) {
  const std::string one = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  std::string many = "{";
  for (int i = 0; i < 20000; ++i) many += concat(i > 0 ? "," : "", "\"t", i, "\":", one);
  refused_soon(
      {{"a header of 2^64 - 1 bytes", std::string(8, '\xFF') + "{}"},
       {"a header of 2^63 bytes", little_endian(1ULL << 63, 8) + "{}"},
       {"a header that ends behind the file", little_endian(99'999'999, 8) + "{}"},
       {"an extent of 2^63 - 1",
        tensors(R"({"a":{"dtype":"F64","shape":[9223372036854775807],"data_offsets":[0,8]}})", 8)},
       {"extents whose product is 2^64",
        tensors(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")},
       {"a product that overflows to the right size",
        tensors(R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})", 4)},
       {"a million extents of one",
        tensors(R"({"a":{"dtype":"U8","shape":[)" + repeated("1,", 1'000'000) + R"(2],"data_offsets":[0,1]}})", 1)},
       {"a million brackets", tensors(R"({"a":)" + std::string(1'000'000, '[') + "}")},
       {"a million objects", tensors(repeated(R"({"a":)", 1'000'000))},
       {"tensors that share their bytes", tensors(many + "}", 1)},
       {"a name of a million bytes twice", tensors("{\"" + std::string(1'000'000, 'x') + "\":" + one + ",\"" +
                                                       std::string(1'000'000, 'x') + "\":" + one + "}",
                                                   1)},
       {"data behind a zero byte in the header", tensors(R"({"a":)" + one + "}" + std::string(100, '\0'), 1)},
       {"a number of a million digits",
        tensors(R"({"a":{"dtype":"U8","shape":[)" + std::string(1'000'000, '9') + R"(],"data_offsets":[0,1]}})", 1)},
       {"end before begin", tensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,0]}})")}},
      ExitCode::checkpoint, "m.safetensors", [](const std::string& path) { SafetensorsFile file(path); });
}

TEST(HostileFiles, TorchArchives) {
  const std::string start = "\x80\x02";
  refused_soon(
      {{"a system call", pickle(start + "cos\nsystem\nX\x02\0\0\0lsR.")},
       {"a built-in function", pickle(start + "cbuiltins\neval\n.")},
       {"a pickle of a text of 2^31 bytes", pickle(start + "X\xFF\xFF\xFF\x7F" + "a.")},
       {"a pickle of a list that doubles 60 times", pickle(start + "]" + repeated("2\x86", 60) + ".")},
       {"a million marks", pickle(start + std::string(1'000'000, '(') + ".")},
       {"a million nested lists", pickle(start + repeated("]", 1'000'000) + std::string(999'999, 'a') + ".")},
       {"a class that is called", pickle(start + "csubprocess\nPopen\n)R.")},
       {"a memo that is empty", pickle(start + "j\xFF\xFF\xFF\xFF.")},
       {"a stack that is empty", pickle(start + "R.")},
       {"an end before its start", pickle(start)},
       {"a member larger than the file", archive("archive/data.pkl", "x", 0xFFFFFFF0U)},
       {"65535 entries where there is one", archive("archive/data.pkl", "x", 1, 65535)},
       {"a member behind the end", archive("archive/data.pkl", "x", 1, 1, 0x7FFFFFFFU)},
       {"nothing but the start", "PK\3\4"}},
      ExitCode::checkpoint, "m.bin", [](const std::string& path) { TorchArchive file(path); });
}

TEST(HostileFiles, Manifests) {
  const std::string file = R"([{"name":"train_00000.bin","tokens":1}])";
  refused_soon({{"a width of zero", manifest(file, "0")},
                {"a width of 2^63", manifest(file, "9223372036854775808")},
                {"2^63 - 1 tokens", manifest(R"([{"name":"train_00000.bin","tokens":9223372036854775807}])")},
                {"a shard in another folder", manifest(R"([{"name":"train/../../x.bin","tokens":1}])")},
                {"marks in another folder",
                 manifest(R"([{"name":"train_00000.bin","tokens":1,"marks":{"name":"../../../etc/passwd"}}])")},
                {"a hundred thousand brackets", std::string(100'000, '[')},
                {"a million brackets in an object", R"({"format":)" + std::string(1'000'000, '[')},
                {"a file given twice over", R"({"format":"satformer-shards","format":"satformer-shards"})"},
                {"a number that no type holds", manifest(file, "1e999999")}},
               ExitCode::data, "manifest.json", [](const std::string& path) {
                 const std::string folder = path.substr(0, path.rfind('/'));
                 write_file_atomic(folder + "/train_00000.bin", "ab");
                 const TokenShards shards(folder, "train");
               });
}

TEST(HostileFiles, JsonLines) {
  const auto tokenizer = make_byte_tokenizer();
  refused_soon({{"a million brackets", R"({"a":)" + std::string(1'000'000, '[')},
                {"a million objects", repeated(R"({"a":)", 1'000'000)},
                {"half a surrogate", R"({"text":"\ud800"})"},
                {"a zero byte", std::string("{\"text\":\"a\"}\0{}", 15)},
                {"a number of a million digits", R"({"n":)" + std::string(1'000'000, '9') + "x"},
                {"a text given twice", R"({"text":"a","text":"b"})"}},
               ExitCode::data, "t.jsonl", [&](const std::string& path) {
                 TextInput input;
                 input.path = path;
                 input.format = TextFormat::json_lines;
                 BatchReader reader({input}, {});
                 TextBatch batch;
                 while (reader.next(batch)) {
                   const TokenBatch tokens =
                       tokenize(batch, path, {.tokenizer = tokenizer.get(), .text_key = "text"});
                   if (tokens.error) std::rethrow_exception(tokens.error);
                 }
               });
}

TEST(HostileFiles, Tokenizers) {
  refused_soon({{"a piece of 2^63 bytes", "\x0A" + std::string(9, '\xFF') + "\x01"},
                {"a million fields", repeated("\x08\x01", 1'000'000)},
                {"a million nested messages", repeated("\x0A\x7F", 1'000'000)},
                {"a megabyte of zeros", std::string(1'000'000, '\0')},
                {"text", "this is no model"}},
               ExitCode::data, "tokenizer.model", [](const std::string& path) { load_tokenizer(path); });
}

}  // namespace
}  // namespace satformer
