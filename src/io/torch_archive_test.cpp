#include "io/torch_archive.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

const std::string data_folder = SATFORMER_TEST_DATA "/data/torch/";

template <class T>
std::string little(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

// A stored ZIP archive of the given members, with 64-bit records if asked.
std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members, bool wide = false) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    const auto offset = static_cast<std::uint32_t>(file.size()), size = static_cast<std::uint32_t>(bytes.size());
    const auto name_size = static_cast<std::uint16_t>(name.size());
    file += "PK\x03\x04" + std::string(14, '\0') + little(size) + little(size) + little(name_size) +
            little(std::uint16_t{0}) + name + bytes;
    std::string extra;
    if (wide) {
      extra = little(std::uint16_t{1}) + little(std::uint16_t{24}) + little(std::uint64_t{size}) +
              little(std::uint64_t{size}) + little(std::uint64_t{offset});
    }
    const std::uint32_t shown = wide ? 0xFFFFFFFF : size;
    directory += "PK\x01\x02" + std::string(16, '\0') + little(shown) + little(shown) + little(name_size) +
                 little(static_cast<std::uint16_t>(extra.size())) + std::string(10, '\0') +
                 little(wide ? 0xFFFFFFFF : offset) + name + extra;
  }
  const std::uint64_t start = file.size();
  file += directory;
  if (wide) {
    const std::uint64_t end64 = file.size();
    file += "PK\x06\x06" + little(std::uint64_t{44}) + std::string(12, '\0') + little(std::uint64_t{members.size()}) +
            little(std::uint64_t{members.size()}) + little(std::uint64_t{directory.size()}) + little(start);
    file += "PK\x06\x07" + little(std::uint32_t{0}) + little(end64) + little(std::uint32_t{1});
  }
  const auto count = static_cast<std::uint16_t>(members.size());
  file += "PK\x05\x06" + std::string(4, '\0') + little(count) + little(count) +
          little(wide ? 0xFFFFFFFF : static_cast<std::uint32_t>(directory.size())) +
          little(wide ? 0xFFFFFFFF : static_cast<std::uint32_t>(start)) + little(std::uint16_t{0});
  return file;
}

std::string text(const std::string& value) { return "X" + little(static_cast<std::uint32_t>(value.size())) + value; }
std::string integer(std::int64_t value) { return std::string("\x8a\x08", 2) + little(value); }
std::string tuple(const std::vector<std::int64_t>& values) {
  std::string code = "(";
  for (const auto value : values) code += integer(value);
  return code + "t";
}

// Without the sync of write_file_atomic, or of a file cut to be written anew, which thousands of files would wait
// for.
void put(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

struct TensorCode {
  std::string storage = "FloatStorage", key = "0";
  std::int64_t stored = 6, offset = 0;
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
  std::string code() const {
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + storage + "\n" + text(key) +
           text("cpu") + integer(stored) + "tQ" + integer(offset) + tuple(shape) + tuple(strides) +
           "\x89"
           "ccollections\nOrderedDict\n)RtR";
  }
};

std::string pickle(const std::string& code) { return "\x80\x02" + code + "."; }
std::string dict_of(const std::string& value) { return pickle("}" + text("w") + value + "s"); }
std::string archive(const std::string& data_pkl, std::size_t storage_bytes = 24) {
  return zip_of({{"a/data.pkl", data_pkl}, {"a/data/0", std::string(storage_bytes, '\1')}});
}

// The message of a file that must be refused within a second.
std::string refused(const std::string& bytes) {
  const TestFolder folder;
  put(folder / "x.bin", bytes);
  const auto start = std::chrono::steady_clock::now();
  try {
    const TorchArchive file(folder / "x.bin");
    ADD_FAILURE() << "accepted";
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    const std::string message = error.what();
    EXPECT_EQ(message.find(folder / "x.bin"), 0u) << message;
    return message;
  }
}

void expect_refused(const std::string& bytes, const std::string& reason) {
  const std::string message = refused(bytes);
  EXPECT_NE(message.find(reason), std::string::npos) << message;
}

template <class T>
std::vector<T> values(const TorchArchive& file, const std::string& name, const std::string& dtype,
                      const std::vector<std::int64_t>& shape) {
  std::vector<std::byte> buffer;
  const TensorView view = file.read(name, buffer);
  EXPECT_EQ(view.name, name);
  EXPECT_EQ(view.dtype, dtype) << name;
  EXPECT_EQ(view.shape, shape) << name;
  std::vector<T> result(view.data.size() / sizeof(T));
  if (!result.empty()) std::memcpy(result.data(), view.data.data(), view.data.size());
  return result;
}

TEST(TorchArchive, ReadsWhatTorchSaves) {
  const TorchArchive file(data_folder + "tensors.bin");
  EXPECT_EQ(file.names().front(), "contiguous");
  EXPECT_EQ(file.names().size(), 13u);
  std::vector<float> contiguous, transposed;
  for (int i = 0; i < 24; ++i) contiguous.push_back(static_cast<float>(i) / 8);
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) transposed.push_back(static_cast<float>(12 * i + 4 * j + k) / 8);
    }
  }
  EXPECT_EQ(values<float>(file, "contiguous", "F32", {2, 3, 4}), contiguous);
  EXPECT_EQ(values<float>(file, "transposed", "F32", {4, 2, 3}), transposed);
  EXPECT_EQ(values<float>(file, "offset", "F32", {2, 3}), (std::vector<float>{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(values<float>(file, "strided", "F32", {6}), (std::vector<float>{3, 8, 13, 18, 23, 28}));
  EXPECT_EQ(values<float>(file, "scalar", "F32", {}), std::vector<float>{2.5});
  EXPECT_EQ(values<float>(file, "empty", "F32", {0, 3}), std::vector<float>{});
  EXPECT_EQ(values<std::uint16_t>(file, "bf16", "BF16", {3}), (std::vector<std::uint16_t>{0x3FC0, 0xC000, 0x4050}));
  EXPECT_EQ(values<std::uint16_t>(file, "f16", "F16", {2}), (std::vector<std::uint16_t>{0x3800, 0xB400}));
  EXPECT_EQ(values<double>(file, "f64", "F64", {1}), std::vector<double>{1e300});
  EXPECT_EQ(values<std::int64_t>(file, "i64", "I64", {2}), (std::vector<std::int64_t>{-5, std::int64_t{1} << 40}));
  EXPECT_EQ(values<std::uint8_t>(file, "u8", "U8", {2}), (std::vector<std::uint8_t>{0, 255}));
  EXPECT_EQ(values<std::uint8_t>(file, "bool", "BOOL", {2}), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(values<float>(file, "parameter", "F32", {1}), std::vector<float>{4});
}

TEST(TorchArchive, ReadsATrainingState) {
  const TorchArchive file(data_folder + "latest/training_state.pt");
  EXPECT_EQ(file.integer("step"), 500);
  EXPECT_EQ(file.integer("epoch"), 0);
  EXPECT_EQ(file.integer("tokens_processed"), 131072000);
  EXPECT_FALSE(file.integer("steps"));
  EXPECT_FALSE(file.integer("config"));
  const auto moments = values<float>(file, "optimizer_state_dict.state.0.exp_avg", "F32", {2, 2});
  ASSERT_EQ(moments.size(), 4u);
  for (const float moment : moments) EXPECT_NEAR(moment, 0.2, 1e-6);
  EXPECT_TRUE(file.contains("optimizer_state_dict.state.1.exp_avg_sq"));
  EXPECT_EQ(values<float>(file, "optimizer_state_dict.state.1.step", "F32", {}), std::vector<float>{1});
  EXPECT_TRUE(file.contains("rng_state.torch"));
}

TEST(TorchArchive, RefusesCodeByName) {
  expect_refused(read_file(data_folder + "malicious.pt"), "it names 'posix.system'");
  EXPECT_FALSE(std::filesystem::exists("/tmp/satformer-pickle-was-executed"));
  for (const auto& [code, name] :
       std::vector<std::pair<std::string, std::string>>{{"cos\nsystem\n(" + text("true") + "tR", "'os.system'"},
                                                        {"cbuiltins\neval\n(" + text("1") + "tR", "'builtins.eval'"},
                                                        {"ctorch\nload\n)R", "'torch.load'"},
                                                        {text("os") + text("system") + "\x93", "'os.system'"},
                                                        {"ctorch\nFloatStorage\nX\n", "cut off"}}) {
    expect_refused(archive(dict_of(code)), name);
  }
  for (const char* opcode : {"i", "o", "\x81", "\x92", "\x82", "P", "0", "2", "S", "I", "\xff"}) {
    expect_refused(archive(pickle("}" + std::string(opcode) + "os\nsystem\n")), "is not one that torch.save writes");
  }
}

TEST(TorchArchive, SayWhatIsNoArchive) {
  expect_refused(read_file(data_folder + "legacy.pt"), "not a ZIP archive");
  expect_refused("", "not a ZIP archive");
  expect_refused("PK\x03\x04", "no directory");
  expect_refused(zip_of({{"readme.txt", "hello"}}), "no data.pkl");
  expect_refused(zip_of({{"a/data.pkl", pickle("}")}, {"b/data.pkl", pickle("}")}}), "two files data.pkl");
  expect_refused(zip_of({{"a/data.pkl", pickle("}")}, {"a/data.pkl", pickle("}")}}), "there twice");
  expect_refused(zip_of({{"a/data.pkl", pickle("}")}, {"a/byteorder", "big"}}), "byte order");
  std::string compressed = archive(dict_of(TensorCode{}.code()));
  compressed[compressed.rfind("PK\x01\x02") + 10] = 8;
  expect_refused(compressed, "is compressed");
}

TEST(TorchArchive, ReadsBothWidthsOfRecords) {
  const TestFolder folder;
  std::string storage(24, '\0');
  for (int i = 0; i < 6; ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(storage.data() + 4 * i, &value, 4);
  }
  for (const bool wide : {false, true}) {
    put(folder / "x.bin", zip_of({{"data.pkl", dict_of(TensorCode{}.code())}, {"data/0", storage}}, wide));
    const TorchArchive file(folder / "x.bin");
    EXPECT_EQ(values<float>(file, "w", "F32", {2, 3}), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST(TorchArchive, SizesThatDoNotFitAreRefused) {
  const auto with = [](const auto& change) {
    TensorCode tensor;
    change(tensor);
    return archive(dict_of(tensor.code()));
  };
  const std::int64_t huge = std::int64_t{1} << 62;
  expect_refused(archive(dict_of(TensorCode{}.code()), 23), "'a/data/0' has 23 bytes");
  expect_refused(archive(dict_of(TensorCode{}.code()), 28), "'a/data/0' has 28 bytes");
  expect_refused(with([](auto& t) { t.key = "1"; }), "needs 'a/data/1'");
  expect_refused(with([](auto& t) { t.stored = -6; }), "-6 elements");
  expect_refused(with([&](auto& t) { t.stored = huge; }), "has 24 bytes");
  expect_refused(with([](auto& t) { t.storage = "QInt8Storage"; }), "'torch.QInt8Storage'");
  expect_refused(with([](auto& t) { t.storage = "Size"; }), "unknown type");
  expect_refused(with([](auto& t) { t.offset = 1; }), "reaches element 6 of a storage of 6");
  expect_refused(with([](auto& t) { t.offset = -1; }), "before its storage");
  expect_refused(with([&](auto& t) { t.offset = INT64_MAX; }), "reaches element");
  expect_refused(with([](auto& t) { t.shape = {3, 3}; }), "reaches element 8");
  expect_refused(with([](auto& t) { t.shape = {2, -3}; }), "no number");
  expect_refused(with([](auto& t) { t.strides = {3, -1}; }), "no number");
  expect_refused(with([](auto& t) { t.strides = {1}; }), "2 dimensions and 1 strides");
  expect_refused(with([&](auto& t) { t.shape = {huge, huge}; }), "overflows");
  expect_refused(with([&](auto& t) { t.strides = {huge, huge}; }), "reaches element");
  expect_refused(with([&](auto& t) { t.shape = {huge, 1}, t.strides = {0, 1}; }), "repeats elements");
  expect_refused(with([&](auto& t) { t.shape = std::vector<std::int64_t>(65, 1), t.strides = t.shape; }),
                 "no usable shape");
  expect_refused(archive(dict_of("ctorch._utils\n_rebuild_tensor_v2\n)R")), "lacks its storage");
  expect_refused(archive(dict_of("ctorch._utils\n_rebuild_tensor_v2\n(NN(t(ttR")), "lacks its storage");
}

TEST(TorchArchive, HostilePicklesCostNoMoreThanTheirLength) {
  // Containers that hold themselves, and each other many times over.
  const std::string itself = "}q\1" + text("self") + "h\1s";
  const TestFolder folder;
  put(folder / "x.bin", archive(pickle(itself)));
  EXPECT_TRUE(TorchArchive(folder / "x.bin").names().empty());
  std::string laughs = "]q" + std::string(1, '\0');
  for (char level = 0; level < 30; ++level) {
    laughs += std::string("]q") + static_cast<char>(level + 1) + "(";
    for (int i = 0; i < 10; ++i) laughs += std::string("h") + level;
    laughs += "e";
  }
  put(folder / "x.bin", archive(pickle(laughs)));
  EXPECT_TRUE(TorchArchive(folder / "x.bin").names().empty());
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "]";
  for (int i = 1; i < 100'000; ++i) deep += "a";
  expect_refused(archive(pickle(deep)), "nest deeper");
  std::string parameters;
  for (int i = 0; i < 1000; ++i) parameters += "ctorch._utils\n_rebuild_parameter\n(";
  parameters += "N";
  for (int i = 0; i < 1000; ++i) parameters += "tR";
  put(folder / "x.bin", archive(dict_of(parameters)));
  EXPECT_TRUE(TorchArchive(folder / "x.bin").names().empty());
  // Counts that the file cannot hold, memos and marks that are not there.
  expect_refused(archive(pickle("X\xff\xff\xff\xff")), "4294967295 bytes are needed");
  expect_refused(archive(pickle("\x8d" + std::string(8, '\xff'))), "bytes are needed");
  expect_refused(archive(pickle("j\xff\xff\xff\xff")), "was never set");
  expect_refused(archive(pickle("t")), "mark is missing");
  expect_refused(archive(pickle("(NR")), "stack is empty");
  expect_refused(archive(pickle("")), "stack is empty");
  expect_refused(archive(pickle("}(Nu")), "no value");
  expect_refused(archive(pickle("NNa")), "added to None");
  expect_refused(archive(pickle("N)R")), "None is called");
  expect_refused(archive(pickle("NNb")), "given attributes");
  expect_refused(archive(pickle("}" + text(std::string(600, 'n')) + TensorCode{}.code() + "s")), "more than 512");
  expect_refused(archive("\x80\x01}."), "protocol 1");
  expect_refused(archive(std::string(std::size_t{17} << 20, '}')), "at most");
}

// Every cut and, at every place, a changed byte: refused or read, never worse.
TEST(TorchArchive, DamageNeverCrashes) {
  const TestFolder folder;
  const std::string path = folder / "x.bin";
  std::vector<std::byte> buffer;
  for (const char* name : {"tensors.bin", "latest/training_state.pt", "malicious.pt"}) {
    const std::string whole = read_file(data_folder + name);
    for (std::size_t size = 0; size < whole.size(); size += 61) refused(whole.substr(0, size));
    for (std::size_t at = 0; at < whole.size(); at += 5) {
      for (const int change : {0xFF, 0x01}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        put(path, damaged);
        try {
          const TorchArchive file(path);
          for (const std::string& tensor : file.names()) file.read(tensor, buffer);
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ExitCode::checkpoint) << error.what();
        }
      }
    }
  }
}

}  // namespace
}  // namespace satformer
