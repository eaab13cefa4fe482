// Ranks that share the work of prepare, as threads of one process.
#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "data/prepare.h"
#include "data/test_text.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

// Where the ranks leave their texts. A rank that fails lets the others go with an error.
class Exchange {
 public:
  explicit Exchange(int size) : size_(size), texts_(static_cast<std::size_t>(size)) {}
  std::vector<std::string> call(int rank, const std::string& own) {
    std::unique_lock lock(mutex_);
    const std::int64_t round = round_;
    texts_[static_cast<std::size_t>(rank)] = own;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      result_ = texts_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round || failed_; });
    if (round_ == round) fail(ExitCode::system, "another rank has failed");
    return result_;
  }
  void give_up() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  std::int64_t rounds() const { return round_; }

 private:
  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_, result_;
  int arrived_ = 0;
  std::int64_t round_ = 0;
  bool failed_ = false;
};

struct Outcome {
  std::vector<std::string> errors;  // of each rank; "": none
  std::int64_t exchanges = 0;
};

Outcome run_ranks(int size, const PrepareOptions& options,
                  const std::function<void(int, PrepareOptions&)>& change = {}) {
  Exchange exchange(size);
  Outcome outcome{std::vector<std::string>(static_cast<std::size_t>(size)), 0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      PrepareOptions own = options;
      own.ranks = {rank, size, [&, rank](const std::string& text) { return exchange.call(rank, text); }};
      if (change) change(rank, own);
      try {
        const PrepareResult result = prepare(own);
        EXPECT_EQ(result.documents > 0, rank == 0);
      } catch (const Error& error) {
        outcome.errors[static_cast<std::size_t>(rank)] = error.what();
        exchange.give_up();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  outcome.exchanges = exchange.rounds();
  return outcome;
}

std::map<std::string, std::string> bytes_of(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    files[entry.path().filename().string()] = read_file(entry.path().string());
  }
  return files;
}

std::string lines(std::size_t documents, std::size_t bad = std::string::npos) {
  std::string text;
  for (std::size_t i = 0; i < documents; ++i) {
    text += i == bad
                ? "{\"text\": 5}\n"
                : Json{{"text", concat(i % 700, " ", some_text(200 + i * 37 % 9000, 7 + i % 700))}}.dump() + "\n";
  }
  return text;
}

struct PrepareRanksTest : testing::Test {
  const TestFolder folder;
  PrepareOptions options;
  PrepareRanksTest() {
    options.inputs = {folder / "a.jsonl", folder / "b.txt"};
    options.output_dir = folder / "out";
    options.tokenizer = "byte";
    options.min_document_bytes = 2000;
    options.val_fraction = 0.1;
    options.workers = 2;
    options.overwrite = true;
    write_file_atomic(folder / "b.txt", some_text(1'500'000));
  }
  std::map<std::string, std::string> alone() {
    prepare(options);
    return bytes_of(folder / "out");
  }
};

TEST_F(PrepareRanksTest, SameBytesAsOneProcess) {
  write_file_atomic(folder / "a.jsonl", lines(2500));
  const std::vector<std::function<void(PrepareOptions&)>> variants = {
      [](PrepareOptions&) {}, [](PrepareOptions& o) { o.dedup = true, o.shuffle_buffer = 50; },
      [](PrepareOptions& o) { o.max_tokens = 1'000'000; }, [](PrepareOptions& o) { o.max_tokens = 11'000'000; },
      [](PrepareOptions& o) { o.sample = 0.3; }};
  const PrepareOptions plain = options;
  for (const auto& set : variants) {
    PrepareOptions varied = plain;
    set(varied);
    options = varied;
    const auto expected = alone();
    for (const int size : {2, 3}) {
      const Outcome outcome = run_ranks(size, options);
      for (const std::string& error : outcome.errors) EXPECT_EQ(error, "");
      EXPECT_GE(outcome.exchanges, 3);
      EXPECT_TRUE(bytes_of(folder / "out") == expected) << size;
    }
  }
}

// A second pass, and a tokenizer that one rank trains.
TEST_F(PrepareRanksTest, SmallInputs) {
  write_file_atomic(folder / "a.jsonl", lines(2));
  options.inputs = {folder / "a.jsonl"};
  options.min_document_bytes = 0;
  options.tokenizer.clear();
  options.train_tokenizer = 300;
  options.val_fraction = 0.0001;
  const auto expected = alone();
  for (const std::string& error : run_ranks(3, options).errors) EXPECT_EQ(error, "");
  EXPECT_TRUE(bytes_of(folder / "out") == expected);
}

TEST_F(PrepareRanksTest, TheFirstFaultOfTheInputIsTold) {
  write_file_atomic(folder / "a.jsonl", lines(2500, 1821));
  for (const int size : {2, 3}) {
    const Outcome outcome = run_ranks(size, options);
    EXPECT_NE(outcome.errors[0].find("a.jsonl:1822"), std::string::npos) << outcome.errors[0];
    for (const std::string& error : outcome.errors) EXPECT_NE(error, "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out/manifest.json"));
}

TEST_F(PrepareRanksTest, RanksThatSeeOtherInputsAreTold) {
  write_file_atomic(folder / "a.jsonl", lines(50));
  write_file_atomic(folder / "c.jsonl", lines(51));
  const Outcome files = run_ranks(2, options, [&](int rank, PrepareOptions& own) {
    if (rank == 1) own.inputs[0] = folder / "c.jsonl";
  });
  EXPECT_NE(files.errors[1].find("the files of rank 1 are not those of rank 0"), std::string::npos)
      << files.errors[1];
  const Outcome seeds =
      run_ranks(2, options, [&](int rank, PrepareOptions& own) { own.seed = static_cast<std::uint64_t>(rank); });
  EXPECT_NE(seeds.errors[1].find("the options of rank 1"), std::string::npos) << seeds.errors[1];
  options.inputs = {"-"};
  options.format = "text";
  EXPECT_NE(run_ranks(2, options).errors[0].find("standard input"), std::string::npos);
}

}  // namespace
}  // namespace satformer
