// What prepare reads and chooses: compressed files, standard input, samples, budgets, shuffling, deduplication.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "data/document_set.h"
#include "data/prepare.h"
#include "data/test_text.h"
#include "data/text_source.h"
#include "io/shards.h"
#include "io/test_folder.h"
#include "io/tokenizer.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

std::string zstd(const std::string& text, int window_log = 0) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (window_log > 0) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  }
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_inBuffer from{text.data(), text.size(), 0};
  if (window_log > 0) ZSTD_compressStream2(context, &to, &from, ZSTD_e_flush);  // of unknown size
  while (ZSTD_compressStream2(context, &to, &from, ZSTD_e_end) > 0) {
  }
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

std::string document(int i) {
  return std::to_string(i) + " " +
         some_text(20 + static_cast<std::size_t>(i) * 13 % 300, 3u + static_cast<unsigned>(i));
}

std::string json_lines(int documents) {
  std::string text;
  for (int i = 0; i < documents; ++i) text += Json{{"text", document(i)}}.dump() + "\n";
  return text;
}

std::map<std::string, std::string> files_of(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename().string()] = read_file(entry.path().string());
  }
  return files;
}

// Documents of one split of byte ids.
std::vector<std::string> documents_of(const std::string& directory, const std::string& prefix = "train") {
  std::vector<std::string> documents(1);
  for (int shard = 0;; ++shard) {
    char name[32];
    std::snprintf(name, sizeof name, "/%s_%05d.bin", prefix.c_str(), shard);
    if (!fs::exists(directory + name)) break;
    const std::string bytes = read_file(directory + name);
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
      const int id = static_cast<unsigned char>(bytes[i]) + 256 * static_cast<unsigned char>(bytes[i + 1]);
      if (id == 2) {
        documents.emplace_back();
      } else {
        documents.back() += static_cast<char>(id - 3);
      }
    }
  }
  documents.pop_back();
  return documents;
}

PrepareOptions options_of(const TestFolder& folder, std::vector<std::string> inputs) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.output_dir = folder / "out";
  options.tokenizer = "byte";
  options.val_fraction = 0;
  options.overwrite = true;
  return options;
}

std::string error_of(const PrepareOptions& options, ExitCode code = ExitCode::data) {
  try {
    prepare(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

// Runs with the given options and several numbers of workers, twice with one; all outputs are the same.
PrepareResult prepare_alike(PrepareOptions options) {
  std::map<std::string, std::string> first;
  PrepareResult result;
  for (const int workers : {1, 2, 5, 1}) {
    options.workers = workers;
    result = prepare(options);
    const auto files = files_of(options.output_dir);
    if (first.empty()) first = files;
    EXPECT_TRUE(files == first) << workers;
  }
  return result;
}

// Standard input is a file, or a pipe that some other thread fills, for as long as this lives.
class StandardInput {
 public:
  explicit StandardInput(const std::string& bytes) : saved_(::dup(STDIN_FILENO)) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("pipe failed");
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    writer_ = std::thread([bytes, end = ends[1]] {
      for (std::size_t at = 0; at < bytes.size();) {
        const ssize_t count = ::write(end, bytes.data() + at, std::min<std::size_t>(bytes.size() - at, 50'000));
        if (count <= 0) break;
        at += static_cast<std::size_t>(count);
      }
      ::close(end);
    });
  }
  ~StandardInput() {
    ::dup2(saved_, STDIN_FILENO);
    ::close(saved_);
    writer_.join();
  }

 private:
  int saved_;
  std::thread writer_;
};

TEST(PrepareForms, ZstdGivesTheSameTokens) {
  const TestFolder folder;
  const std::string text = some_text(700'000), lines = json_lines(300);
  write_file_atomic(folder / "a.txt", text);
  write_file_atomic(folder / "b.jsonl", lines);
  write_file_atomic(folder / "c.txt.zst", zstd(text));
  // Several frames, an empty and a skippable one among them, as parallel compressors write.
  write_file_atomic(folder / "d.jsonl.zst", std::string("\x50\x2A\x4D\x18\x03\0\0\0abc", 11) +
                                                zstd(lines.substr(0, 999)) + zstd("") +
                                                zstd(with_crlf(lines.substr(999))));
  write_file_atomic(folder / "e.jsonl", zstd(lines));  // known by content
  prepare(options_of(folder, {folder / "a.txt", folder / "b.jsonl"}));
  const std::string shard = read_file(folder / "out/train_00000.bin");
  for (const char* json : {"d.jsonl.zst", "e.jsonl"}) {
    prepare_alike(options_of(folder, {folder / "c.txt.zst", folder / json}));
    EXPECT_TRUE(read_file(folder / "out/train_00000.bin") == shard) << json;
  }
}

TEST(PrepareForms, DamagedZstdIsNamed) {
  const TestFolder folder;
  const std::string packed = zstd(some_text(400'000)), path = folder / "x.txt.zst";
  const PrepareOptions options = options_of(folder, {path});
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{9}, packed.size() / 2, packed.size() - 1}) {
    write_file_atomic(path, packed.substr(0, size));
    EXPECT_NE(error_of(options).find("x.txt.zst: the zstd data is cut off"), std::string::npos) << size;
    EXPECT_FALSE(fs::exists(folder / "out"));
  }
  for (const std::size_t at : {packed.size() / 2, packed.size() - 2}) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_file_atomic(path, damaged);
    EXPECT_NE(error_of(options).find("x.txt.zst: the zstd data is corrupt: "), std::string::npos) << at;
  }
  write_file_atomic(path, "plain text under a wrong name");
  EXPECT_NE(error_of(options).find("corrupt"), std::string::npos);
  write_file_atomic(path, packed + "trailing");
  EXPECT_NE(error_of(options).find("corrupt"), std::string::npos);
  write_file_atomic(path, zstd("large window", 28));
  EXPECT_NE(error_of(options).find("window of more than 128 MB"), std::string::npos);
}

TEST(PrepareForms, BytesThatAreNotUtf8AreNamedOrReplaced) {
  const TestFolder folder;
  const std::string start = some_text(600'000) + "\n";
  const auto line = std::to_string(std::count(start.begin(), start.end(), '\n') + 2);
  write_file_atomic(folder / "a.txt", start + "ok\nbad \xE9t\xE9 \xF0\x9F\x98");
  PrepareOptions options = options_of(folder, {folder / "a.txt"});
  const std::string message = error_of(options);
  EXPECT_NE(message.find("a.txt:" + line + ": not UTF-8: 0xE9 at byte " + std::to_string(start.size() + 8)),
            std::string::npos)
      << message;
  EXPECT_FALSE(fs::exists(folder / "out"));
  options.skip_bad = true;
  const PrepareResult result = prepare_alike(options);
  EXPECT_EQ(result.replaced_bytes, 5);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("5 bytes"), std::string::npos);
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(documents_of(folder / "out"),
            std::vector<std::string>{start + "ok\nbad " + bad + "t" + bad + " " + bad + bad + bad});
  // A character across the border of two blocks is none of these.
  write_file_atomic(folder / "a.txt", std::string(256 * 1024 - 2, 'x') + "\xE2\x82\xAC" +
                                          std::string(256 * 1024 - 2, 'y') + "\xC3\xA9");
  options.skip_bad = false;
  prepare(options);
}

TEST(PrepareForms, StandardInputLikeTheFile) {
  const TestFolder folder;
  const std::string lines = json_lines(9000);
  ASSERT_GT(lines.size(), std::size_t{1} << 20);
  write_file_atomic(folder / "a.jsonl", lines);
  for (const bool train_tokenizer : {false, true}) {
    PrepareOptions options = options_of(folder, {folder / "a.jsonl"});
    options.val_fraction = 0.1;
    if (train_tokenizer) {
      options.tokenizer.clear();
      options.train_tokenizer = 300;
    }
    prepare(options);
    auto from_file = files_of(folder / "out");
    from_file.erase("manifest.json");
    options.inputs = {"-"};
    options.format = "jsonl";
    for (const std::string& bytes : {lines, gzip(lines), zstd(lines)}) {
      const StandardInput input(bytes);
      prepare(options);
      auto from_input = files_of(folder / "out");
      EXPECT_TRUE(Json::parse(from_input["manifest.json"])["inputs"][0]["bytes"].is_null());
      from_input.erase("manifest.json");
      EXPECT_TRUE(from_input == from_file) << train_tokenizer;
    }
  }
  const StandardInput input("some text\n==\nmore");
  PrepareOptions options = options_of(folder, {"-"});
  options.format = "text";
  options.document_separator = "==";
  EXPECT_EQ(prepare(options).documents, 2);
}

// The forced validation document needs a second pass over what cannot be read again.
TEST(PrepareForms, SmallStandardInputFillsBothSplits) {
  const TestFolder folder;
  PrepareOptions options = options_of(folder, {"-"});
  options.format = "jsonl";
  options.val_fraction = 0.0001;
  const StandardInput input(json_lines(5));
  const PrepareResult result = prepare(options);
  EXPECT_EQ(result.train_documents, 4);
  EXPECT_EQ(result.val_documents, 1);
}

TEST(PrepareForms, StandardInputHasToBeDescribed) {
  const TestFolder folder;
  PrepareOptions options = options_of(folder, {"-"});
  EXPECT_NE(error_of(options, ExitCode::usage).find("--format jsonl"), std::string::npos);
  options.format = "parquet";
  EXPECT_NE(error_of(options, ExitCode::usage).find("cannot be read from standard input"), std::string::npos);
  options.format = "json";
  EXPECT_NE(error_of(options, ExitCode::usage).find("Did you mean 'jsonl'?"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "out"));
  options.format = "jsonl";
  const StandardInput input("{\"text\": null}\n");
  EXPECT_NE(error_of(options).find("-:1: 'text' is null"), std::string::npos);
}

TEST(SpooledInput, IsReadAgainUntilForgotten) {
  const TestFolder folder;
  std::string text = some_text(3'000'000);
  text.resize(3'000'000);
  write_file_atomic(folder / "a", text);
  const int descriptor = ::open((folder / "a").c_str(), O_RDONLY);
  SpooledInput input(descriptor, "the input");
  input.set_directory(folder.path());
  const auto read_to = [&](std::uint64_t from, std::uint64_t to) {
    std::string out, block(70'000, '\0');
    while (from + out.size() < to) {
      const std::size_t count =
          input.read(from + out.size(), block.data(), std::min<std::size_t>(block.size(), to - from - out.size()));
      if (count == 0) break;
      out.append(block, 0, count);
    }
    return out;
  };
  EXPECT_TRUE(read_to(0, 500'000) == text.substr(0, 500'000));
  EXPECT_TRUE(read_to(0, 2'000'000) == text.substr(0, 2'000'000));
  EXPECT_TRUE(read_to(0, 100) == text.substr(0, 100));
  input.forget();
  EXPECT_TRUE(read_to(100, 3'000'001) == text.substr(100));
  EXPECT_EQ(read_to(3'000'000, 3'000'001), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
  ::close(descriptor);
}

TEST(PrepareForms, ASampleIsAnEvenShare) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(4000) + "not JSON\n");
  PrepareOptions options = options_of(folder, {folder / "a.jsonl"});
  options.sample = 0.25;
  options.seed = 3;
  options.skip_bad = true;
  const PrepareResult result = prepare_alike(options);
  EXPECT_EQ(result.documents + result.sampled_out + result.bad_lines, 4001);
  EXPECT_NEAR(static_cast<double>(result.documents), 1000, 100);
  const auto some = documents_of(folder / "out");
  EXPECT_TRUE(std::is_sorted(some.begin(), some.end(),
                             [](const auto& a, const auto& b) { return std::stoi(a) < std::stoi(b); }));
  const Json manifest = read_json_file(folder / "out/manifest.json");
  EXPECT_EQ(manifest["sample"], 0.25);
  EXPECT_EQ(manifest["sampled_out"], result.sampled_out);
  // A larger sample holds the smaller one; another seed draws others.
  options.sample = 0.5;
  prepare(options);
  const auto more = documents_of(folder / "out");
  EXPECT_TRUE(std::includes(more.begin(), more.end(), some.begin(), some.end(),
                            [](const auto& a, const auto& b) { return std::stoi(a) < std::stoi(b); }));
  options.sample = 0.25;
  options.seed = 4;
  prepare(options);
  EXPECT_NE(documents_of(folder / "out"), some);
  // Documents of plain text are drawn as lines are.
  std::string text;
  for (int i = 0; i < 4001; ++i) text += std::to_string(i) + "\n--\n";
  write_file_atomic(folder / "b.txt", text);
  options = options_of(folder, {folder / "b.txt"});
  options.sample = 0.25;
  options.seed = 3;
  options.document_separator = "--";
  EXPECT_NEAR(static_cast<double>(prepare_alike(options).documents), static_cast<double>(some.size()), 1);
  options.sample = 1e-12;
  EXPECT_NE(error_of(options).find("4001 outside the sample"), std::string::npos);
}

TEST(PrepareForms, EndsAtTheDocumentThatReachesTheBudget) {
  const TestFolder folder;
  // What follows in the same batch is not even judged.
  write_file_atomic(folder / "a.jsonl", json_lines(5000) + "not JSON\n");
  PrepareOptions options = options_of(folder, {folder / "a.jsonl"});
  options.max_tokens = 30'000;
  options.val_fraction = 0.1;
  const PrepareResult result = prepare_alike(options);
  EXPECT_TRUE(result.reached_max_tokens);
  EXPECT_GE(result.train_tokens, 30'000);
  const auto train = documents_of(folder / "out");
  EXPECT_LT(result.train_tokens - static_cast<std::int64_t>(train.back().size()) - 1, 30'000);
  std::int64_t highest = 0;
  for (const char* prefix : {"train", "val"}) {
    for (const std::string& text : documents_of(folder / "out", prefix))
      highest = std::max<std::int64_t>(highest, std::stoi(text));
  }
  EXPECT_EQ(highest + 1, result.documents);
  EXPECT_EQ(read_json_file(folder / "out/manifest.json")["reached_max_tokens"], true);
  options.max_tokens = 1;
  options.val_fraction = 0;
  EXPECT_EQ(prepare(options).documents, 1);
  options.max_tokens = 100'000'000;
  EXPECT_NE(error_of(options).find("a.jsonl:5001: "), std::string::npos);
  options.skip_bad = true;
  EXPECT_FALSE(prepare(options).reached_max_tokens);
}

TEST(PrepareForms, AShuffleBufferKeepsTheDocumentsAndChangesTheirOrder) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(1000));
  write_file_atomic(folder / "b.txt", some_text(300'000));
  PrepareOptions options = options_of(folder, {folder / "a.jsonl", folder / "b.txt"});
  options.val_fraction = 0.1;
  prepare(options);
  const auto sorted = [&](const char* prefix) {
    auto documents = documents_of(folder / "out", prefix);
    std::sort(documents.begin(), documents.end());
    return documents;
  };
  const auto train = sorted("train"), val = sorted("val"), order = documents_of(folder / "out");
  for (const std::int64_t buffer : {1, 50, 5000}) {
    options.shuffle_buffer = buffer;
    prepare_alike(options);
    EXPECT_EQ(sorted("train"), train);
    EXPECT_EQ(sorted("val"), val);
    const auto shuffled = documents_of(folder / "out");
    EXPECT_EQ(shuffled == order, buffer == 1);
    if (buffer != 50) continue;
    // Nothing comes earlier than the buffer reaches.
    for (std::size_t i = 0; i + 200 < shuffled.size(); ++i) {
      if (shuffled[i].size() < 1000) {
        EXPECT_LE(std::stoi(shuffled[i]), static_cast<int>(static_cast<double>(i) * 1.3) + 120);
      }
    }
  }
  options.shuffle_buffer = 50;
  options.seed = 7;
  const auto before = documents_of(folder / "out");
  prepare(options);
  EXPECT_NE(documents_of(folder / "out"), before);
  EXPECT_EQ(read_json_file(folder / "out/manifest.json")["shuffle_buffer"], 50);
}

TEST(PrepareForms, IdenticalDocumentsAreWrittenOnce) {
  const TestFolder folder;
  const std::string text = some_text(200'000, 5);  // of several pieces
  write_file_atomic(folder / "a.txt", text);
  write_file_atomic(folder / "b.txt", "\xEF\xBB\xBF" + with_crlf(text));
  write_file_atomic(folder / "c.txt", text + " ");            // another last piece
  write_file_atomic(folder / "e.txt", "#" + text.substr(1));  // another first piece
  write_file_atomic(folder / "d.jsonl", json_lines(300) + Json{{"text", text}}.dump() + "\n" + json_lines(200) +
                                            Json{{"id", 1}, {"text", document(7)}}.dump() +
                                            "\n{\"text\": \"\"}\n{\"text\": \"\"}\n");
  PrepareOptions options = options_of(
      folder, {folder / "a.txt", folder / "b.txt", folder / "c.txt", folder / "e.txt", folder / "d.jsonl"});
  options.dedup = true;
  const PrepareResult result = prepare_alike(options);
  EXPECT_EQ(result.duplicate_documents, 1 + 1 + 200 + 1);
  EXPECT_EQ(result.empty_documents, 2);
  EXPECT_EQ(result.documents, 303);
  const auto documents = documents_of(folder / "out");
  EXPECT_EQ(std::set<std::string>(documents.begin(), documents.end()).size(), documents.size());
  EXPECT_EQ(documents[0], text);
  EXPECT_EQ(documents[3], document(0));
  EXPECT_EQ(read_json_file(folder / "out/manifest.json")["duplicate_documents"], 203);
  options.dedup = false;
  EXPECT_EQ(prepare(options).documents, 303 + 203);
}

TEST(PrepareForms, AllTogetherTheSameForAnyNumberOfWorkers) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl.zst", zstd(json_lines(2000) + json_lines(1500)));
  write_file_atomic(folder / "b.txt.gz", gzip(some_text(300'000)));
  PrepareOptions options = options_of(folder, {folder / "b.txt.gz", folder / "a.jsonl.zst"});
  options.tokenizer.clear();
  options.train_tokenizer = 300;
  options.val_fraction = 0.05;
  options.sample = 0.7;
  options.shuffle_buffer = 100;
  options.dedup = true;
  options.max_tokens = 60'000;
  options.shard_tokens = 20'000;
  const PrepareResult result = prepare_alike(options);
  EXPECT_TRUE(result.reached_max_tokens);
  EXPECT_GT(result.val_documents, 0);
}

TEST(PrepareForms, OptionsOutOfRangeAreRefused) {
  const TestFolder folder;
  write_file_atomic(folder / "a.txt", "x");
  const auto refused = [&](const auto& change) {
    PrepareOptions options = options_of(folder, {folder / "a.txt"});
    change(options);
    error_of(options, ExitCode::usage);
    EXPECT_FALSE(fs::exists(folder / "out"));
  };
  refused([](PrepareOptions& o) { o.sample = 0; });
  refused([](PrepareOptions& o) { o.sample = 1.01; });
  refused([](PrepareOptions& o) { o.sample = std::numeric_limits<double>::quiet_NaN(); });
  refused([](PrepareOptions& o) { o.max_tokens = -1; });
  refused([](PrepareOptions& o) { o.shuffle_buffer = -1; });
  refused([](PrepareOptions& o) { o.shuffle_buffer = 2'000'000'000; });
  refused([](PrepareOptions& o) { o.format = "csv"; });
  refused([](PrepareOptions& o) { o.text_key = "body"; });  // of plain text
  write_file_atomic(folder / "a.jsonl", json_lines(3));
  refused([&](PrepareOptions& o) {
    o.inputs = {folder / "a.jsonl"};
    o.min_document_bytes = 100;
  });
  refused([&](PrepareOptions& o) {
    o.inputs = {folder / "a.jsonl"};
    o.document_separator = "--";
  });
}

TEST(DocumentSet, TakesEachHashOnceInTheMemoryItSays) {
  DocumentSet set;
  std::uint64_t state = 1;
  std::vector<std::uint64_t> hashes{0};
  for (int i = 0; i < 200'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    hashes.push_back(state ^ (state >> 29));
  }
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    ASSERT_TRUE(set.insert(hashes[i]));
    if (i > 5000) {
      ASSERT_LE(set.memory_bytes(), set.size() * 16);
    }
  }
  for (const std::uint64_t hash : hashes) ASSERT_FALSE(set.insert(hash));
  EXPECT_EQ(set.size(), hashes.size());
}

}  // namespace
}  // namespace satformer
