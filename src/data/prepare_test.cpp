#include "data/prepare.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "data/ordered_pipeline.h"
#include "data/sample.h"
#include "data/test_text.h"
#include "data/tokenize.h"
#include "io/shards.h"
#include "io/test_folder.h"
#include "io/tokenizer.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

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

std::map<std::string, std::string> files_of(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename().string()] = read_file(entry.path().string());
  }
  return files;
}

std::string json_lines(int documents) {
  std::string text;
  for (int i = 0; i < documents; ++i) {
    text += Json{{"id", i},
                 {"text", some_text(50 + static_cast<std::size_t>(i) * 37 % 900, 7u + static_cast<unsigned>(i))}}
                .dump() +
            "\n";
  }
  return text;
}

// Documents of one split, decoded.
std::vector<std::string> documents_of(const std::string& directory, const std::string& prefix) {
  const TokenShards shards(directory, prefix);
  const auto tokenizer = load_tokenizer(directory);
  shards.check_ids(tokenizer->vocab_size());
  std::vector<std::int32_t> ids;
  for (std::size_t shard = 0; shard < shards.num_shards(); ++shard) {
    std::vector<std::int64_t> part(static_cast<std::size_t>(shards.shard_tokens(shard)));
    shards.read(shard, 0, part);
    for (const auto id : part) ids.push_back(static_cast<std::int32_t>(id));
  }
  std::vector<std::string> documents;
  std::vector<std::int32_t> document;
  for (const auto id : ids) {
    if (id != tokenizer->eos_id()) {
      document.push_back(id);
      continue;
    }
    documents.push_back(tokenizer->decode(document));
    document.clear();
  }
  EXPECT_TRUE(document.empty());
  return documents;
}

PrepareOptions byte_options(const TestFolder& folder, std::vector<std::string> inputs) {
  PrepareOptions options;
  options.inputs = std::move(inputs);
  options.output_dir = folder / "out";
  options.tokenizer = "byte";
  options.val_fraction = 0;
  options.workers = 1;
  return options;
}

TEST(Prepare, SameBytesForAnyNumberOfWorkers) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(900));
  write_file_atomic(folder / "b.txt", some_text(400'000));
  std::map<std::string, std::string> first;
  for (const int workers : {1, 2, 4, 1}) {
    PrepareOptions options;
    options.inputs = {folder / "a.jsonl", folder / "b.txt"};
    options.output_dir = folder / "out";
    options.train_tokenizer = 300;
    options.val_fraction = 0.1;
    options.shard_tokens = 20'000;
    options.workers = workers;
    options.overwrite = true;
    const PrepareResult result = prepare(options);
    EXPECT_EQ(result.documents, 901);
    EXPECT_GT(result.val_documents, 40);
    EXPECT_LT(result.val_documents, 160);
    const auto files = files_of(folder / "out");
    EXPECT_GT(files.size(), 6u);
    if (first.empty()) first = files;
    EXPECT_TRUE(files == first) << workers;
  }
}

TEST(Prepare, GzipMarkAndLineEndsGiveTheSameTokens) {
  const TestFolder folder;
  const std::string text = some_text(300'000), lines = json_lines(50);
  write_file_atomic(folder / "a.txt", text);
  write_file_atomic(folder / "b.jsonl", lines);
  write_file_atomic(folder / "c.txt", "\xEF\xBB\xBF" + with_crlf(text));
  write_file_atomic(folder / "d.jsonl", "\xEF\xBB\xBF" + with_crlf(lines));
  write_file_atomic(folder / "e.txt.gz", gzip(text));
  write_file_atomic(folder / "f.jsonl.gz", gzip(with_crlf(lines)));
  write_file_atomic(folder / "g.json", Json{{"text", "\xEF\xBB\xBF" + with_crlf(text)}}.dump());
  std::string shard;
  for (const auto& [plain, json] : std::map<std::string, std::string>{
           {"a.txt", "b.jsonl"}, {"c.txt", "d.jsonl"}, {"e.txt.gz", "f.jsonl.gz"}, {"g.json", "b.jsonl"}}) {
    PrepareOptions options = byte_options(folder, {folder / plain, folder / json});
    options.overwrite = true;
    prepare(options);
    const std::string bytes = read_file(folder / "out/train_00000.bin");
    if (shard.empty()) shard = bytes;
    EXPECT_TRUE(bytes == shard) << plain;
  }
}

TEST(Prepare, ShardsHoldDocumentsAndEndOfSequence) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"c\\n\"}\n");
  const PrepareResult result = prepare(byte_options(folder, {folder / "a.jsonl"}));
  EXPECT_EQ(read_file(folder / "out/train_00000.bin"), std::string("d\0e\0\2\0f\0\r\0\2\0", 12));
  EXPECT_EQ(result.train_tokens, 6);
  EXPECT_EQ(result.bytes, 4);
  const Json manifest = read_json_file(folder / "out/manifest.json");
  EXPECT_EQ(manifest["bytes_per_id"], 2);
  EXPECT_EQ(manifest["documents"], 2);
  EXPECT_EQ(manifest["tokenizer"]["name"], "byte");
  EXPECT_EQ(manifest["tokenizer"]["sha256"], sha256_file(folder / "out/tokenizer.json"));
  EXPECT_EQ(manifest["files"][0]["tokens"], 6);
  EXPECT_EQ(manifest["files"][0]["sha256"], sha256_file(folder / "out/train_00000.bin"));
  EXPECT_EQ(manifest["inputs"][0]["path"], folder / "a.jsonl");
}

TEST(Prepare, EmptyDocumentsAreCountedWhereverTheyStand) {
  const std::string empty = "{\"text\":\"\"}\n", full = "{\"text\":\"a\"}\n", blank = "{\"text\":\" \\n\"}\n";
  for (const std::string& lines : {empty + full, full + empty, full + empty + full, blank + full + empty}) {
    const TestFolder folder;
    write_file_atomic(folder / "a.jsonl", lines);
    write_file_atomic(folder / "b.txt", "");
    const PrepareResult result = prepare(byte_options(folder, {folder / "a.jsonl", folder / "b.txt"}));
    EXPECT_EQ(result.documents + result.empty_documents, 1 + std::count(lines.begin(), lines.end(), '\n'));
    for (const std::string& document : documents_of(folder / "out", "train")) EXPECT_EQ(document, "a");
  }
}

TEST(Prepare, NothingLeftIsAnErrorWithoutShards) {
  for (const char* text : {"{\"text\":\"\"}\n", "", "\n\n", "{\"text\":1}\n"}) {
    const TestFolder folder;
    write_file_atomic(folder / "a.jsonl", text);
    PrepareOptions options = byte_options(folder, {folder / "a.jsonl"});
    options.skip_bad = true;
    EXPECT_NE(error_of(options).find("nothing is left"), std::string::npos);
    EXPECT_FALSE(fs::exists(folder / "out"));
    options.tokenizer.clear();
    options.train_tokenizer = 300;
    EXPECT_NE(error_of(options).find("no text to train"), std::string::npos);
    EXPECT_FALSE(fs::exists(folder / "out"));
  }
}

TEST(Prepare, BadLinesStopWithFileAndLine) {
  const std::map<std::string, std::string> bad = {{"{\"text\":null}", "'text' is null, not a string"},
                                                  {"{\"txet\":\"a\"}", "Did you mean 'txet'?"},
                                                  {"{}", "'text' is missing"},
                                                  {"{\"text\":[\"a\"]}", "'text' is an array"},
                                                  {"{\"text\":{\"text\":\"a\"}}", "'text' is an object"},
                                                  {"{\"text\":7}", "'text' is a number"},
                                                  {"{\"text\":\"a\"", "not valid JSON"},
                                                  {"{\"text\":\"a\"} x", "not valid JSON"},
                                                  {"{\"text\":\"\xFF\"}", "not UTF-8: 0xFF at byte 10 of the line"},
                                                  {"{\"text\":\"\xC3\"}", "not UTF-8: 0xC3 at byte 10 of the line"},
                                                  {"{\"text\": x, \"y\": \"\xFF\"}", "not valid JSON at byte 10"},
                                                  {"{\"text\":\"\\ud800\"}", "not valid JSON"},
                                                  {"{\"text\":\"a\",\"text\":\"b\"}", "twice"},
                                                  {"[1]", "object was expected"},
                                                  {"\"text\"", "object was expected"},
                                                  {"plain text", "not valid JSON"}};
  for (const auto& [line, reason] : bad) {
    const TestFolder folder;
    write_file_atomic(folder / "a.jsonl", json_lines(3) + "\n" + line + "\n" + json_lines(2) + line);
    for (const int workers : {1, 3}) {
      PrepareOptions options = byte_options(folder, {folder / "a.jsonl"});
      options.workers = workers;
      const std::string message = error_of(options);
      EXPECT_NE(message.find("a.jsonl:5: "), std::string::npos) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
      EXPECT_FALSE(fs::exists(folder / "out"));
      options.skip_bad = true;
      const PrepareResult result = prepare(options);
      EXPECT_EQ(result.bad_lines, 2);
      EXPECT_EQ(result.documents, 5);
      fs::remove_all(folder / "out");
    }
  }
}

TEST(Prepare, OtherKeysAndNestedOnesAreLeftAlone) {
  EXPECT_EQ(json_line_text(R"({"a":{"text":"no"},"b":[{"text":1}],"body":"yes","c":null})", "body", "x"), "yes");
  EXPECT_EQ(json_line_text(R"({"text":"a\r\nb\rc"})", "text", "x"), "a\nb\rc");
}

TEST(Prepare, SplitIsByDocumentAndNeverEmpty) {
  for (const double fraction : {0.001, 0.5, 0.999}) {
    for (const int documents : {2, 3, 10}) {
      const TestFolder folder;
      write_file_atomic(folder / "a.jsonl", json_lines(documents));
      PrepareOptions options = byte_options(folder, {folder / "a.jsonl"});
      options.val_fraction = fraction;
      const PrepareResult result = prepare(options);
      EXPECT_GE(result.val_documents, 1);
      EXPECT_GE(result.train_documents, 1);
      EXPECT_EQ(result.train_documents + result.val_documents, documents);
      EXPECT_TRUE(result.warnings.empty());
      const auto train = documents_of(folder / "out", "train"), val = documents_of(folder / "out", "val");
      EXPECT_EQ(static_cast<int>(train.size() + val.size()), documents);
      const auto before = files_of(folder / "out");
      options.overwrite = true;
      prepare(options);
      EXPECT_TRUE(files_of(folder / "out") == before);
    }
  }
}

TEST(Prepare, OneDocumentGoesToTrainingWithAWarning) {
  const TestFolder folder;
  write_file_atomic(folder / "a.txt", "only one");
  PrepareOptions options = byte_options(folder, {folder / "a.txt"});
  options.val_fraction = 0.999;
  const PrepareResult result = prepare(options);
  EXPECT_EQ(result.train_documents, 1);
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_NE(result.warnings[0].find("no validation split"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "out/val_00000.bin"));
}

TEST(Prepare, FilesGivenTwiceCountOnce) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(4));
  const PrepareResult result = prepare(byte_options(folder, {folder / "a.jsonl", folder / "*.jsonl"}));
  EXPECT_EQ(result.documents, 4);
  ASSERT_EQ(result.warnings.size(), 1u);
}

TEST(Prepare, ShardsThatAreThereAreKept) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(40));
  PrepareOptions options = byte_options(folder, {folder / "a.jsonl"});
  options.shard_tokens = 2000;
  options.val_fraction = 0.2;
  prepare(options);
  const auto before = files_of(folder / "out");
  EXPECT_NE(error_of(options).find("--overwrite"), std::string::npos);
  EXPECT_TRUE(files_of(folder / "out") == before);
  // A failing run with --overwrite leaves them too; a finished one leaves nothing of the old.
  options.overwrite = true;
  options.text_key = "absent";
  error_of(options);
  EXPECT_TRUE(files_of(folder / "out") == before);
  options.text_key = "text";
  options.shard_tokens = 1'000'000;
  prepare(options);
  EXPECT_EQ(files_of(folder / "out").size(), 4u);
  EXPECT_EQ(documents_of(folder / "out", "train").size() + documents_of(folder / "out", "val").size(), 40u);
}

TEST(Prepare, ContinuesAfterAKilledRun) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(4));
  fs::create_directories(folder / "out");
  write_file_atomic(folder / "out/train_00007.bin.tmp", "part");
  prepare(byte_options(folder, {folder / "a.jsonl"}));
  const auto good = files_of(folder / "out");
  EXPECT_FALSE(good.contains("train_00007.bin.tmp"));
  write_file_atomic(folder / "out/train_00001.bin", "old");
  write_file_atomic(folder / ("out/" + std::string(unfinished_marker)), "");
  prepare(byte_options(folder, {folder / "a.jsonl"}));
  EXPECT_TRUE(files_of(folder / "out") == good);
}

TEST(Prepare, InputFolderMayHoldTheOutput) {
  const TestFolder folder;
  write_file_atomic(folder / "a.jsonl", json_lines(4));
  PrepareOptions options = byte_options(folder, {folder.path()});
  prepare(options);
  options.overwrite = true;
  EXPECT_EQ(prepare(options).documents, 4);
}

TEST(Prepare, BadOptionsAreRefusedFirst) {
  const TestFolder folder;
  write_file_atomic(folder / "a.txt", "x");
  const auto refused = [&](const auto& change) {
    PrepareOptions options = byte_options(folder, {folder / "a.txt"});
    change(options);
    error_of(options, ExitCode::usage);
    EXPECT_FALSE(fs::exists(folder / "out"));
  };
  refused([](PrepareOptions& o) { o.inputs.clear(); });
  refused([](PrepareOptions& o) { o.tokenizer.clear(); });
  refused([](PrepareOptions& o) { o.train_tokenizer = 300; });
  refused([](PrepareOptions& o) { o.tokenizer.clear(), o.train_tokenizer = 100; });
  refused([](PrepareOptions& o) { o.tokenizer.clear(), o.train_tokenizer = -300; });
  refused([](PrepareOptions& o) { o.val_fraction = 1; });
  refused([](PrepareOptions& o) { o.val_fraction = -0.1; });
  refused([](PrepareOptions& o) { o.val_fraction = std::numeric_limits<double>::quiet_NaN(); });
  refused([](PrepareOptions& o) { o.workers = -1; });
  refused([](PrepareOptions& o) { o.shard_tokens = 1; });
  refused([](PrepareOptions& o) { o.document_separator = "x", o.min_document_bytes = 1; });
}

TEST(Prepare, UnwritableFolderIsASystemError) {
  const TestFolder folder;
  write_file_atomic(folder / "a.txt", "x");
  PrepareOptions options = byte_options(folder, {folder / "a.txt"});
  options.output_dir = folder / "a.txt";
  EXPECT_NE(error_of(options, ExitCode::system).find("a.txt"), std::string::npos);
  options.output_dir = "/proc/satformer";
  EXPECT_NE(error_of(options, ExitCode::system).find("/proc/satformer"), std::string::npos);
}

TEST(SampleTexts, EvenBoundedAndRepeatable) {
  const TestFolder folder;
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += Json{{"text", std::to_string(i) + std::string(95, 'x')}}.dump() + "\n";
  write_file_atomic(folder / "a.jsonl", lines);
  const auto inputs = find_inputs(std::vector<std::string>{folder / "a.jsonl"}).files;
  SampleOptions options;
  options.max_bytes = 100'000;
  const auto texts = sample_texts(inputs, {}, options);
  EXPECT_EQ(texts, sample_texts(inputs, {}, options));
  EXPECT_GT(texts.size(), 900u);
  EXPECT_LE(texts.size(), 1050u);
  double mean = 0;
  int previous = -1;
  for (const std::string& text : texts) {
    const int number = std::stoi(text);
    EXPECT_GT(number, previous);
    previous = number;
    mean += number / static_cast<double>(texts.size());
  }
  EXPECT_NEAR(mean, 10'000, 800);
  options.max_bytes = 100'000'000;
  EXPECT_EQ(sample_texts(inputs, {}, options).size(), 20'000u);
}

TEST(OrderedPipeline, KeepsOrderAndTheFirstError) {
  for (const int workers : {1, 2, 8}) {
    int next = 0;
    OrderedPipeline<int, int> pipeline(
        [&](int& item) {
          item = next++;
          if (item == 1500) throw std::runtime_error("producer");
          return true;
        },
        [](int& item) {
          if (item % 500 == 499 && item > 900) throw std::logic_error("worker at " + std::to_string(item));
          return item * 2;
        },
        workers);
    for (int i = 0; i < 999; ++i) ASSERT_EQ(pipeline.pop(), i * 2);
    try {
      pipeline.pop();
      FAIL();
    } catch (const std::logic_error& error) {
      EXPECT_STREQ(error.what(), "worker at 999");
    }
  }
}

TEST(OrderedPipeline, EndsAndMayBeLeftEarly) {
  for (const int count : {0, 1, 100}) {
    int next = 0;
    OrderedPipeline<int, int> pipeline([&](int& item) { return (item = next++) < count; },
                                       [](int& item) { return item; }, 3);
    int seen = 0;
    while (pipeline.pop()) ++seen;
    EXPECT_EQ(seen, count);
    EXPECT_FALSE(pipeline.pop());
  }
  OrderedPipeline<int, int> endless([](int&) { return true; }, [](int& item) { return item; }, 2);
  EXPECT_TRUE(endless.pop());
}

}  // namespace
}  // namespace satformer
