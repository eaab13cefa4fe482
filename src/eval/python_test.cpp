#include <gtest/gtest.h>

#include <cmath>

#include "eval/grade.h"
#include "eval/python_random.h"
#include "eval/python_text.h"
#include "eval/tasks/drop_metric.h"

namespace satformer {
namespace {

// Expected values are those of CPython 3.11.
TEST(PythonRandom, DrawsAreThoseOfPython) {
  PythonRandom random(1234);
  EXPECT_EQ(random.next_32(), 4150886329u);
  EXPECT_EQ(random.next_32(), 3342196574u);
  EXPECT_EQ(random.next_32(), 1892932127u);
  EXPECT_EQ(random.uniform(), 0.11685051774599753);
  EXPECT_EQ(random.uniform(), 0.09064360641670188);
  EXPECT_EQ(PythonRandom((std::uint64_t{1} << 40) + 5).next_32(), 2166296868u);
}

TEST(PythonRandom, SamplesAreThoseOfPython) {
  PythonRandom random(1234);
  EXPECT_EQ(random.sample(30, 3), (std::vector<std::size_t>{24, 14, 3}));
  EXPECT_EQ(random.sample(30, 3), (std::vector<std::size_t>{0, 2, 29}));
  EXPECT_EQ(random.sample(1000, 6), (std::vector<std::size_t>{965, 961, 826, 596, 35, 687}));
  PythonRandom other(0);
  EXPECT_EQ(other.sample(30, 3), (std::vector<std::size_t>{27, 12, 24}));
  for (const std::size_t expected : {8u, 0u, 9u, 4u, 9u}) EXPECT_EQ(other.choice_index(10), expected);
}

TEST(PythonText, CaseIsThatOfPython) {
  EXPECT_EQ(capitalize("ÉTÉ comes And He"), "Été comes and he");
  EXPECT_EQ(lower_case("élan ΟΔΟΣ"), "élan οδος");
  EXPECT_EQ(capitalize("ßtraße"), "Sstraße");
  EXPECT_EQ(capitalize("\xC7\x86"), "\xC7\x85");
  EXPECT_EQ(lower_case("\xC4\xB0x"), "i\xCC\x87x");
  EXPECT_EQ(capitalize(""), "");
  EXPECT_EQ(upper_case("straße"), "STRASSE");
}

TEST(PythonText, NumbersReadAndPrintAsInPython) {
  const std::vector<std::pair<const char*, double>> numbers = {
      {"1_000", 1000.0}, {" 12 ", 12.0},           {"1e5", 1e5}, {"٣", 3.0},
      {"+.5", 0.5},      {"-Infinity", -INFINITY}, {"5.", 5.0}};
  for (const auto& [text, value] : numbers) EXPECT_EQ(parse_float(text).value_or(-1), value) << text;
  EXPECT_TRUE(std::isnan(parse_float("nan").value_or(0)));
  for (const char* text : {"1__0", "_1", "1.5.2", "", "0x10", "1e", ".", "--1"})
    EXPECT_FALSE(parse_float(text)) << text;
  const std::vector<std::pair<double, const char*>> printed = {{1.0, "1.0"},
                                                               {0.1, "0.1"},
                                                               {1e-7, "1e-07"},
                                                               {1e16, "1e+16"},
                                                               {1e22, "1e+22"},
                                                               {-0.5, "-0.5"},
                                                               {INFINITY, "inf"},
                                                               {3.14159, "3.14159"},
                                                               {100.0, "100.0"},
                                                               {1e-4, "0.0001"},
                                                               {2.5e-10, "2.5e-10"},
                                                               {123456789012345680.0, "1.2345678901234568e+17"},
                                                               {1234567.25, "1234567.25"}};
  for (const auto& [value, text] : printed) EXPECT_EQ(float_repr(value), text);
}

TEST(PythonText, ReprIsThatOfPython) {
  EXPECT_EQ(string_repr("a'b"), "\"a'b\"");
  EXPECT_EQ(string_repr("a'b\"c"), "'a\\'b\"c'");
  EXPECT_EQ(string_repr("t\tn\n\\"), "'t\\tn\\n\\\\'");
  EXPECT_EQ(string_repr("é\u200b\x01"), "'é\\u200b\\x01'");
  EXPECT_EQ(list_repr({"x", "y'z"}), "['x', \"y'z\"]");
}

TEST(Grade, AnswersAreFoundWhateverTheirCase) {
  EXPECT_EQ(contains_any("It was QUALITATIVE (visual).", {"nothing", "Qualitative (Visual)"}), 1.0);
  EXPECT_EQ(contains_any("axb", {"a.b"}), 0.0);  // no pattern
  EXPECT_EQ(contains_any("ÉMILE", {"émile"}), 1.0);
  EXPECT_EQ(find_last_ignoring_case("Éa xÉA", "éa").value_or(0), 5u);
}

TEST(Grade, ExactMatchDropsCasePunctuationAndWhereAskedArticles) {
  EXPECT_EQ(exact_match("the Leeds!", {"The Leeds"}, false), 1.0);
  EXPECT_EQ(exact_match("the leeds", {"Leeds"}, false), 0.0);
  EXPECT_EQ(exact_match("the leeds", {"Leeds"}, true), 1.0);
  EXPECT_EQ(exact_match("breathe leeds", {"brea leeds"}, true), 0.0);  // "the " inside a word stays
  EXPECT_EQ(exact_match("THE leeds", {"leeds"}, true), 0.0);           // as lm-eval: not in capitals
}

TEST(Grade, StatisticsAreThoseOfLmEval) {
  const std::vector<Score> scores = {{-1.0}, {-2.0}, {-0.5}, {-3.25}};
  const Aggregate perplexity = aggregate(Aggregation::perplexity, scores, 2000);
  EXPECT_DOUBLE_EQ(perplexity.value, std::exp(6.75 / 4));
  EXPECT_NEAR(perplexity.stderr_value.value_or(0), 3.6860044398238965, 1e-12);
  EXPECT_NEAR(aggregate(Aggregation::mean, {{1.0}, {0.0}, {1.0}}, 1).stderr_value.value_or(0), 1.0 / 3, 1e-12);
  EXPECT_FALSE(aggregate(Aggregation::mean, {{1.0}, {0.0}}, 0).stderr_value);
  EXPECT_FALSE(aggregate(Aggregation::plain_mean, {{1.0}, {0.0}}, 1000).stderr_value);
  EXPECT_DOUBLE_EQ(aggregate(Aggregation::mean, {{1.0}, {0.0, 0.0}}, 0).value, 1.0);  // weight 0: does not count
  EXPECT_DOUBLE_EQ(aggregate(Aggregation::bits_per_byte, {{-std::log(2.0), 1}, {-std::log(2.0), 3}}, 0).value, 0.5);
}

TEST(Grade, TheFirstOfEqualChoicesWins) {
  Task task;
  task.kind = RequestKind::choice;
  task.metrics = {{"acc"}, {"acc_norm"}, {"acc_bytes"}};
  Question q;
  q.choices = {"aa", "bbbb", "éé"};
  q.gold = 0;
  Response r;
  r.likelihoods = {{-3.0, false}, {-4.0, false}, {-3.0, false}};
  const Scores scores = grade_by_kind(task, q, r);
  EXPECT_EQ(scores[0].value, 1.0);
  EXPECT_EQ(scores[1].value, 0.0);  // -1.5, -1.0, -1.5 per character
  q.gold = 1;
  EXPECT_EQ(grade_by_kind(task, q, r)[1].value, 1.0);
  q.gold = 2;
  EXPECT_EQ(grade_by_kind(task, q, r)[2].value, 1.0);  // -1.5, -1.0, -0.75 per byte
}

// Expected values are those of lm-eval's own code.
TEST(DropMetric, ScoresAreThoseOfLmEval) {
  using tasks::drop_score;
  const auto check = [](std::vector<std::string> p, std::vector<std::string> g, double match, double f1) {
    const auto score = drop_score(p, g);
    EXPECT_EQ(score.exact_match, match) << p[0];
    EXPECT_DOUBLE_EQ(score.f1, f1) << p[0];
  };
  check({"12 boats and 3"}, {"12"}, 0, 0.4);
  check({"Anna - the well-known lamp"}, {"Anna", "the lamp"}, 0, 0.2);
  check({"3.0"}, {"3"}, 1, 1);
  check({"A red, boat"}, {"red boat"}, 1, 1);
  check({"blue"}, {"12 blue"}, 0, 0);
  check({""}, {""}, 1, 1);
  check({"green Boat house"}, {"the boat"}, 0, 0.5);
  EXPECT_EQ(tasks::normalize_span("The 1,000 well-known  A's"), "1000.0 well known as");
  EXPECT_EQ(tasks::normalize_span("12.50 th-e"), "12.5 th e");
}

TEST(DropMetric, AssignmentHasTheLargestSum) {
  using tasks::best_assignment;
  EXPECT_EQ(best_assignment({{1, 2}, {2, 4}, {3, 1}}), (std::vector<std::ptrdiff_t>{-1, 1, 0}));
  EXPECT_EQ(best_assignment({{7, 5, 1}, {6, 1, 1}}), (std::vector<std::ptrdiff_t>{1, 0}));
  EXPECT_TRUE(best_assignment({}).empty());
}

}  // namespace
}  // namespace satformer
