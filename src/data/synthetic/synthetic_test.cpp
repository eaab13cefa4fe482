#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/test_error.h"
#include "data/synthetic/story_words.h"
#include "data/synthetic/windows.h"
#include "data/synthetic/write.h"
#include "data/windows.h"
#include "io/file.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

SyntheticOptions options_of(const std::string& task) {
  SyntheticOptions options;
  options.task = task;
  options.examples = 40;
  options.val_examples = 10;
  if (task == "recall_stories") {
    options.pairs = 4;
    options.seq_length = 768;
  }
  return options;
}

const Tokenizer* bytes() {
  static const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  return tokenizer.get();
}

std::vector<std::size_t> counted(const SyntheticExample& e) {
  std::vector<std::size_t> places;
  for (std::size_t t = 0; t < e.ids.size(); ++t) {
    if (e.marks[t].counted()) places.push_back(t);
  }
  return places;
}

std::vector<std::size_t> of_kind(const SyntheticExample& e, TokenKind kind) {
  std::vector<std::size_t> places;
  for (std::size_t t = 0; t < e.ids.size(); ++t) {
    if (e.marks[t].kind() == kind) places.push_back(t);
  }
  return places;
}

std::string refused(const SyntheticOptions& options) {
  return error_text([&] { SyntheticWindows(options, bytes(), 0, 1); }, ExitCode::config);
}

TEST(Synthetic, ExamplesDependOnTaskSeedAndNumberAlone) {
  for (const std::string& task : synthetic_task_names()) {
    SCOPED_TRACE(task);
    SyntheticOptions o = options_of(task);
    const SyntheticWindows a(o, bytes(), 0, 40), later(o, bytes(), 7, 5);
    std::set<std::vector<std::int32_t>> all;
    for (std::int64_t i = 0; i < 40; ++i) {
      const SyntheticExample e = a.example(i);
      EXPECT_EQ(e.size(), o.seq_length);
      EXPECT_EQ(e.marks.size(), e.ids.size());
      EXPECT_FALSE(counted(e).empty());
      EXPECT_FALSE(e.marks[0].counted());
      for (const std::int32_t id : e.ids) EXPECT_TRUE(id >= 0 && id < a.vocab_size()) << id;
      const auto& targets = synthetic_task(o).targets;
      for (const std::size_t t : counted(e))
        EXPECT_TRUE(std::count(targets.begin(), targets.end(), e.marks[t].kind()));
      all.insert(e.ids);
    }
    EXPECT_EQ(all.size(), 40u);
    EXPECT_EQ(a.example(9).ids, later.example(2).ids);
    EXPECT_EQ(a.example(9).marks, later.example(2).marks);
    o.seed = 43;
    EXPECT_NE(SyntheticWindows(o, bytes(), 0, 40).example(9).ids, a.example(9).ids);
  }
}

TEST(Synthetic, TrainingValidationAndEvaluationShareNoExample) {
  for (const std::string& task : synthetic_task_names()) {
    const SyntheticOptions o = options_of(task);
    std::set<std::vector<std::int32_t>> all;
    for (const std::int64_t first : {training_examples, validation_examples, evaluation_examples}) {
      const SyntheticWindows windows(o, bytes(), first, 100);
      for (std::int64_t i = 0; i < 100; ++i) all.insert(windows.example(i).ids);
    }
    EXPECT_EQ(all.size(), 300u) << task;
  }
}

TEST(Synthetic, MqarHasZoologysLayout) {
  const SyntheticOptions o = options_of("mqar");
  const SyntheticWindows windows(o, nullptr, 0, 200);
  std::int64_t first_slots = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    const SyntheticExample e = windows.example(i);
    std::map<std::int32_t, std::int32_t> value;
    for (std::size_t t = 0; t < 16; t += 2) {
      EXPECT_TRUE(e.ids[t] >= 1 && e.ids[t] < 256 && e.ids[t + 1] >= 256) << e.ids[t];
      EXPECT_EQ(e.marks[t], TokenMark(TokenKind::key));
      EXPECT_EQ(e.marks[t + 1], TokenMark(TokenKind::value));
      EXPECT_TRUE(value.emplace(e.ids[t], e.ids[t + 1]).second);
    }
    const auto targets = counted(e);
    ASSERT_EQ(targets.size(), 8u);
    for (const std::size_t t : targets) {
      EXPECT_TRUE(t > 16 && t % 2 == 1);
      EXPECT_EQ(e.marks[t - 1], TokenMark(TokenKind::query));
      ASSERT_TRUE(value.count(e.ids[t - 1]));
      EXPECT_EQ(value[e.ids[t - 1]], e.ids[t]);
      value.erase(e.ids[t - 1]);
      first_slots += t < 16 + 8;
    }
    EXPECT_TRUE(value.empty());
  }
  // Small gaps are likelier than uniform ones: 4 of 24 places would get a sixth of 1600.
  EXPECT_GT(first_slots, 500);
}

TEST(Synthetic, InductionRepeatsTriggersWithWhatFollowedThem) {
  const SyntheticWindows windows(options_of("induction"), nullptr, 0, 50);
  for (std::int64_t i = 0; i < 50; ++i) {
    const SyntheticExample e = windows.example(i);
    for (const std::size_t t : counted(e)) {
      ASSERT_LT(e.ids[t - 1], 8);
      const auto first = std::find(e.ids.begin(), e.ids.end(), e.ids[t - 1]);
      EXPECT_LT(first - e.ids.begin(), 48);
      EXPECT_EQ(first[1], e.ids[t]);
    }
    EXPECT_EQ(counted(e).size(), 8u);
    EXPECT_EQ(std::count_if(e.ids.begin(), e.ids.end(), [](std::int32_t id) { return id < 8; }), 16);
  }
}

TEST(Synthetic, SelectiveCopyRepeatsInOrder) {
  const SyntheticWindows windows(options_of("selective_copy"), nullptr, 0, 50);
  std::set<std::size_t> places;
  for (std::int64_t i = 0; i < 50; ++i) {
    const SyntheticExample e = windows.example(i);
    std::vector<std::int32_t> data, copy;
    for (const std::size_t t : of_kind(e, TokenKind::value)) {
      data.push_back(e.ids[t]);
      places.insert(t);
    }
    for (const std::size_t t : counted(e)) copy.push_back(e.ids[t]);
    EXPECT_EQ(data, copy);
    EXPECT_EQ(data.size(), 8u);
    EXPECT_EQ(e.ids[55], 1);
    for (const std::size_t t : of_kind(e, TokenKind::noise)) EXPECT_EQ(e.ids[t], 0);
  }
  EXPECT_GT(places.size(), 50u);
}

TEST(Synthetic, PhoneBookAsksForWholeNumbersByWholeNames) {
  SyntheticOptions o = options_of("phone_book");
  o.seq_length = 96;
  const SyntheticWindows windows(o, nullptr, 0, 50);
  for (std::int64_t i = 0; i < 50; ++i) {
    const SyntheticExample e = windows.example(i);
    std::map<std::pair<int, int>, std::vector<std::int32_t>> book;
    std::set<int> first_parts;
    for (std::size_t entry = 0; entry < 8; ++entry) {
      const auto at = e.ids.begin() + static_cast<std::ptrdiff_t>(entry * 6);
      EXPECT_TRUE(book.emplace(std::pair(at[0], at[1]), std::vector<std::int32_t>(at + 2, at + 5)).second);
      EXPECT_EQ(at[5], 0);
      first_parts.insert(at[0]);
    }
    EXPECT_LE(first_parts.size(), 4u);
    const auto targets = counted(e);
    ASSERT_EQ(targets.size(), 8u * 3);
    for (std::size_t q = 0; q < targets.size(); q += 3) {
      const std::size_t t = targets[q];
      EXPECT_EQ(e.ids[t - 3], 1);
      EXPECT_EQ(book.at({e.ids[t - 2], e.ids[t - 1]}),
                std::vector<std::int32_t>(e.ids.begin() + static_cast<std::ptrdiff_t>(t),
                                          e.ids.begin() + static_cast<std::ptrdiff_t>(t) + 3));
    }
  }
}

TEST(Synthetic, MixedRecallReturnsHalfOfTheValuesAsTheyAre) {
  const SyntheticOptions o = options_of("mixed_recall");
  const SyntheticWindows windows(o, nullptr, 0, 100);
  const std::int32_t keys = (512 - 16) / 17, first_pair = 8 + keys;
  std::set<std::int32_t> before;
  for (std::int64_t i = 0; i < 100; ++i) {
    const SyntheticExample e = windows.example(i);
    std::map<std::int32_t, std::pair<std::int32_t, bool>> answer;  // by query
    for (std::size_t t = 0; t < 16; t += 2) {
      const std::int32_t m = e.ids[t], code = e.ids[t + 1] - first_pair, v = code % 8, key = code / 8 % keys;
      const bool contextual = code / 8 >= keys;
      EXPECT_EQ(e.marks[t + 1], TokenMark(contextual ? TokenKind::contextual : TokenKind::raw));
      EXPECT_EQ(e.marks[t], TokenMark(contextual ? TokenKind::context : TokenKind::noise));
      answer[8 + key] = {contextual ? (v + m) % 8 : v, contextual};
      EXPECT_TRUE(m >= 1 && m <= 4);
      before.insert(m);
    }
    ASSERT_EQ(answer.size(), 8u);
    std::int64_t contextual = 0;
    for (const std::size_t t : counted(e)) {
      const auto& [digit, changed] = answer.at(e.ids[t - 1]);
      EXPECT_EQ(e.ids[t], digit);
      EXPECT_EQ(e.marks[t], TokenMark(changed ? TokenKind::contextual : TokenKind::raw, true));
      contextual += changed;
    }
    EXPECT_EQ(contextual, 4);
    EXPECT_EQ(counted(e).size(), 8u);
  }
  EXPECT_EQ(before.size(), 4u);
}

// The answer that a story's own statements give, for every question of it.
TEST(Synthetic, StoriesAskForWhatTheyState) {
  SyntheticOptions o = options_of("recall_stories");
  const SyntheticWindows windows(o, bytes(), 0, 100);
  std::set<std::string> asked;
  for (std::int64_t i = 0; i < 100; ++i) {
    const SyntheticExample e = windows.example(i);
    const auto end = std::find(e.ids.begin(), e.ids.end(), bytes()->eos_id());
    const std::string text = bytes()->decode(std::span(e.ids.data(), static_cast<std::size_t>(end - e.ids.begin())));
    const std::string story = text.substr(0, text.find('\n'));
    // What is counted, as words; each has been said in the story before.
    std::string answer;
    std::int64_t answers = 0;
    for (std::size_t t = 0; t <= e.ids.size(); ++t) {
      if (t < e.ids.size() && e.marks[t].counted()) {
        EXPECT_EQ(e.marks[t].kind(), TokenKind::content);
        answer += bytes()->token_bytes(e.ids[t], false);
        continue;
      }
      if (answer.empty()) continue;
      EXPECT_NE(story.find(answer[0] == ' ' ? answer.substr(1) : answer), std::string::npos) << text << "\n"
                                                                                             << answer;
      asked.insert(answer);
      answer.clear();
      ++answers;
    }
    EXPECT_EQ(answers, 4) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
    EXPECT_GT(end - e.ids.begin(), 768 - 60);  // distractions fill the window
    EXPECT_EQ(text.find("  "), std::string::npos) << text;
  }
  EXPECT_GT(asked.size(), 60u);
}

TEST(Synthetic, NoTwoPeopleOfAStoryShareAFact) {
  SyntheticOptions o = options_of("recall_stories");
  o.pairs = 40;
  o.seq_length = 5000;
  const SyntheticWindows windows(o, bytes(), 0, 10);
  for (std::int64_t i = 0; i < 10; ++i) {
    const SyntheticExample e = windows.example(i);
    const std::string text = bytes()->decode(e.ids), story = text.substr(0, text.find('\n'));
    std::set<std::string> facts;
    std::int64_t count = 0;
    for (std::size_t at = 0; at < story.size(); at = story.find('.', at) + 2) {
      const std::string sentence = story.substr(at, story.find('.', at) - at);
      const std::string who = sentence.substr(0, sentence.find(' '));
      if (std::count(synthetic::story_names.begin(), synthetic::story_names.end(), who) == 0) continue;
      facts.insert(sentence.substr(who.size()));
      ++count;
    }
    EXPECT_EQ(count, 40) << story;
    EXPECT_EQ(facts.size(), 40u) << story;
  }
}

TEST(Synthetic, StoryTokensHaveTheKindsOfTheirWords) {
  const SyntheticWindows windows(options_of("recall_stories"), bytes(), 0, 20);
  std::map<std::string, TokenKind> kinds;
  for (std::int64_t i = 0; i < 20; ++i) {
    const SyntheticExample e = windows.example(i);
    std::string word;
    for (std::size_t t = 0; t < e.ids.size(); ++t) {
      const std::string piece = bytes()->token_bytes(e.ids[t], false);
      if (!word.empty() && (piece == " " || piece == "." || piece == "?" || piece == "\n" || piece == ",")) {
        kinds[word] = e.marks[t - 1].kind();
        word.clear();
      }
      if (piece != " ") word += piece;
      if (piece == "." || piece == "?") {
        EXPECT_EQ(e.marks[t].kind(), TokenKind::structure);
      }
      if (piece == "." || piece == "?" || piece == "\n") word.clear();
    }
  }
  EXPECT_EQ(kinds.at("the"), TokenKind::function);
  EXPECT_EQ(kinds.at("in"), TokenKind::function);
  EXPECT_EQ(kinds.at("Who"), TokenKind::function);
  EXPECT_EQ(kinds.at("lives"), TokenKind::content);
}

TEST(Synthetic, StoriesOfATrainedTokenizerReadLikeText) {
  const auto texts = story_samples(1, 400);
  const auto tokenizer = make_sentencepiece_tokenizer(train_sentencepiece(texts, 600), "test");
  SyntheticOptions o = options_of("recall_stories");
  o.seq_length = 256;
  const SyntheticWindows windows(o, tokenizer.get(), 0, 20);
  for (std::int64_t i = 0; i < 20; ++i) {
    const SyntheticExample e = windows.example(i);
    const auto end = std::find(e.ids.begin(), e.ids.end(), tokenizer->eos_id());
    const std::string text =
        tokenizer->decode(std::span(e.ids.data(), static_cast<std::size_t>(end - e.ids.begin())));
    EXPECT_EQ(text.find("  "), std::string::npos) << text;
    EXPECT_TRUE(text[0] >= 'A' && text[0] <= 'Z') << text;
    EXPECT_EQ(text.find("\n "), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with(".")) << text;
  }
}

TEST(Synthetic, FilesHoldTheGeneratedWindows) {
  for (const std::string& task : synthetic_task_names()) {
    SCOPED_TRACE(task);
    const TestFolder folder;
    SyntheticPrepareOptions prepare;
    prepare.synthetic = options_of(task);
    prepare.output_dir = folder / "data";
    if (task == "recall_stories") prepare.tokenizer = "byte";
    const std::int64_t T = prepare.synthetic.seq_length;
    prepare.shard_tokens = 16 * T + 5;  // 16 examples a shard: three shards
    const SyntheticPrepareResult result = prepare_synthetic(prepare);
    struct Use {
      const char* prefix;
      std::int64_t first, count;
      std::size_t shards;
    };
    for (const Use& use : {Use{"train", training_examples, 40, 3}, Use{"val", validation_examples, 10, 1}}) {
      const auto shards = std::make_shared<TokenShards>(prepare.output_dir, use.prefix);
      EXPECT_EQ(shards->num_shards(), use.shards);
      shards->check_marks(token_kind_names);
      shards->check_ids(task == "recall_stories" ? 259 : 512);
      shards->verify_contents();
      const TokenWindows files(shards, T);
      const SyntheticWindows stream(prepare.synthetic, bytes(), use.first, use.count);
      ASSERT_EQ(files.size(), use.count);
      ASSERT_EQ(stream.size(), use.count);
      EXPECT_TRUE(files.has_marks() && stream.has_marks());
      std::vector<std::int64_t> a(static_cast<std::size_t>(T) + 1), b = a;
      std::vector<TokenMark> marks_a(a.size()), marks_b(a.size());
      for (std::int64_t i = 0; i < use.count; ++i) {
        files.read(i, a, marks_a);
        stream.read(i, b, marks_b);
        EXPECT_EQ(a, b);
        EXPECT_EQ(marks_a, marks_b);
        EXPECT_FALSE(marks_a.front().counted() || marks_a.back().counted());
      }
      EXPECT_NE(error_text([&] { TokenWindows(shards, T / 2); }, ExitCode::config).find(std::to_string(T)),
                std::string::npos);
    }
    prepare.overwrite = true;
    EXPECT_EQ(prepare_synthetic(prepare).manifest, result.manifest);
  }
}

TEST(Synthetic, DamagedMarksAreNamed) {
  const auto refused_after = [](const auto& damage) {
    const TestFolder folder;
    SyntheticPrepareOptions prepare;
    prepare.synthetic = options_of("mqar");
    prepare.output_dir = folder.path();
    prepare_synthetic(prepare);
    damage(folder / "train_00000.marks", folder.path());
    return error_text(
        [&] {
          const TokenShards shards(folder.path(), "train");
          shards.check_marks(token_kind_names);
          shards.verify_contents();
        },
        ExitCode::data);
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
    EXPECT_NE(text.find("train_00000.marks"), std::string::npos) << text;
  };
  has(refused_after([](const auto& path, const auto&) { fs::remove(path); }), "not in the folder");
  has(refused_after([](const auto& path, const auto&) { fs::resize_file(path, 10); }), "10 marks for 2561 tokens");
  has(refused_after(
          [](const auto& path, const auto&) { std::ofstream(path, std::ios::in | std::ios::binary) << '\x7f'; }),
      "kind 127");
  has(refused_after(
          [](const auto& path, const auto&) { std::ofstream(path, std::ios::in | std::ios::binary) << '\x02'; }),
      "changed or damaged");
  has(refused_after([](const auto&, const auto& folder) { fs::remove(folder + "/manifest.json"); }), "no manifest");
}

TEST(Synthetic, ATokenizerOfOtherDataDoesNotStay) {
  const TestFolder folder;
  SyntheticPrepareOptions prepare;
  prepare.synthetic = options_of("recall_stories");
  prepare.tokenizer = "byte";
  prepare.output_dir = folder.path();
  prepare_synthetic(prepare);
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json"));
  SyntheticPrepareOptions other;
  other.synthetic = options_of("mqar");
  other.output_dir = folder.path();
  EXPECT_NE(error_text([&] { prepare_synthetic(other); }, ExitCode::data).find("--overwrite"), std::string::npos);
  other.overwrite = true;
  prepare_synthetic(other);
  EXPECT_FALSE(fs::exists(folder / "tokenizer.json"));
}

TEST(Synthetic, OptionsThatNoExampleFitsAreRefused) {
  const auto changed = [](const std::string& task, const auto& change) {
    SyntheticOptions o = options_of(task);
    change(o);
    return refused(o);
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(changed("mqar", [](auto& o) { o.pairs = 17; }), "at least 68");
  has(changed("mqar", [](auto& o) { o.seq_length = 65; }), "even");
  has(changed("mqar", [](auto& o) { o.vocab_size = 17; }), "at least 18");
  has(changed("induction", [](auto& o) { o.seq_length = 31; }), "at least 32");
  has(changed("selective_copy", [](auto& o) { o.pairs = 32; }), "at least 65");
  has(changed("phone_book", [](auto& o) { o.seq_length = 50; }), "at least 54");
  has(changed("phone_book", [](auto& o) { o.vocab_size = 19; }), "at least 20");
  has(changed("mixed_recall", [](auto& o) { o.questions = 9; }), "questions = 9");
  has(changed("mixed_recall", [](auto& o) { o.vocab_size = 151; }), "at least 152");
  has(changed("recall_stories", [](auto& o) { o.seq_length = 100; }), "facts");
  has(changed("recall_stories", [](auto& o) { o.pairs = 49; }), "48 people");
  has(changed("mqarr", [](auto&) {}), "Did you mean 'mqar'?");
  has(error_text([] { SyntheticWindows(options_of("recall_stories"), nullptr, 0, 1); }, ExitCode::config),
      "tokenizer");
  // The least that is asked for does fit.
  SyntheticOptions o = options_of("mqar");
  o.vocab_size = 18;
  o.seq_length = 32;
  EXPECT_EQ(counted(SyntheticWindows(o, nullptr, 0, 1).example(0)).size(), 8u);
  o = options_of("mixed_recall");
  o.vocab_size = 152;
  o.seq_length = 32;
  EXPECT_EQ(counted(SyntheticWindows(o, nullptr, 0, 1).example(0)).size(), 8u);
}

TEST(Draws, AreUniformAndDistinct) {
  Draws draws(1, "test", 0);
  std::vector<std::int64_t> counts(7);
  for (int i = 0; i < 7000; ++i) ++counts[static_cast<std::size_t>(draws.below(7))];
  for (const std::int64_t count : counts) EXPECT_NEAR(count, 1000, 150);
  for (const std::int64_t n : {10, 100}) {
    std::vector<std::int64_t> seen(static_cast<std::size_t>(n));
    for (int i = 0; i < 2000; ++i) {
      const auto chosen = draws.distinct(10, n);
      EXPECT_EQ(std::set<std::int64_t>(chosen.begin(), chosen.end()).size(), 10u);
      for (const std::int64_t value : chosen) ++seen.at(static_cast<std::size_t>(value));
    }
    for (const std::int64_t count : seen) EXPECT_NEAR(count, 20000.0 / static_cast<double>(n), 80);
  }
  const std::vector<double> weights = {8, 1, 1};
  std::int64_t first = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto order = draws.distinct_weighted(2, weights);
    EXPECT_NE(order[0], order[1]);
    first += order[0] == 0;
  }
  EXPECT_NEAR(first, 800, 60);
}

}  // namespace
}  // namespace satformer
