#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/test_error.h"
#include "eval/prompts.h"
#include "eval/tasks/custom.h"
#include "eval/tasks/list.h"
#include "io/test_folder.h"

namespace satformer {
namespace {

const std::string fixtures = SATFORMER_TEST_DATA "/eval/fixtures";

Task task_named(const std::string& name) { return select_tasks(std::vector<std::string>{name}).tasks.at(0); }

Row row_of(const char* json) {
  Row row;
  row.columns = Json::parse(json);
  row.origin = "row";
  return row;
}

std::string message_of(const auto& action, ExitCode code) { return error_text(action, code); }

void expect_mentions(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message << "\nlacks " << part;
}

TEST(Tasks, EveryOneReadsItsFixture) {
  EvalOptions options;
  options.data_dir = fixtures;
  options.limit = 5;
  for (const Task& task : builtin_tasks()) {
    const PreparedTask prepared = prepare_task(task, options);
    EXPECT_EQ(prepared.samples.size(), 5u)
        << task.name << ": " << (prepared.bad.empty() ? "" : prepared.bad[0].reason);
    for (const Sample& sample : prepared.samples) {
      EXPECT_FALSE(sample.arguments.empty()) << task.name;
      EXPECT_EQ(sample.arguments[0].first.find("{{"), std::string::npos);
    }
  }
}

TEST(Tasks, HellaswagIsCleanedOfMarks) {
  const Question q =
      task_named("hellaswag")
          .ask(row_of(
              R"({"activity_label": "Knots", "ctx_a": "A man [header] How to [title] Tie. ", "ctx_b": "the END",
          "endings": [" [title] goes  on. [step] ", "b", "c", "d"], "label": "2"})"));
  EXPECT_EQ(q.text, "Knots: A man How to. Tie. The end");
  EXPECT_EQ(q.choices[0], " goes on. ");  // marks go after the ends are stripped
  EXPECT_EQ(q.gold, 2u);
}

TEST(Tasks, WinograndePutsEachOptionIntoTheBlank) {
  const Question q =
      task_named("winogrande")
          .ask(row_of(
              R"({"sentence": "Ann thanked Eve as _ was kind. ", "option1": "Ann", "option2": "Eve", "answer": "2"})"));
  EXPECT_EQ(q.contexts, (std::vector<std::string>{"Ann thanked Eve as Ann", "Ann thanked Eve as Eve"}));
  EXPECT_EQ(q.choices, (std::vector<std::string>{"was kind."}));
  EXPECT_EQ(q.gold, 1u);
}

TEST(Tasks, PassageFormsDropTheQuestionAndTheFullStop) {
  const Row row = row_of(
      R"({"context": " The mill was built by Tom. the mill WAS built by ", "question": "The mill was built by ",
          "orig_question": "who built the mill:", "answers": ["Tom", "Tom B."]})");
  EXPECT_EQ(task_named("drop@jrt").ask(row).text, "The mill was built by Tom. The mill was built by");
  EXPECT_EQ(task_named("nq@jrt-512").ask(row).text,
            "The mill was built by Tom. the mill WAS built by. The mill was built by");
  EXPECT_EQ(task_named("nq@jrt-512_twice").ask(row).text,
            "who built the mill The mill was built by Tom.\nThe mill was built by Tom. The mill was built by");
  EXPECT_EQ(task_named("triviaqa@jrt_twice").ask(row).text,
            "who built the mill: The mill was built by Tom.\nThe mill was built by Tom. The mill was built by");
  EXPECT_EQ(task_named("drop@jrt").ask(row).answers.size(), 2u);
  const Row form =
      row_of(R"({"text": "\nYear: 1990\nDirector: Ann.\nDirector:", "key": "director", "value": "Ann"})");
  EXPECT_EQ(task_named("fda@jrt").ask(form).text, "Year: 1990\nDirector: Ann. Director:");
  EXPECT_EQ(task_named("fda@jrt_twice").ask(form).text,
            "Information about Director. Year: 1990\nDirector: Ann.\nYear: 1990\nDirector: Ann. Director:");
  const Row page = row_of(
      R"({"text": "\n Films\nYear: 1990.\n Summary of information above...\n\nyear: ", "key": "year", "value": "1990"})");
  EXPECT_EQ(task_named("swde@jrt").ask(page).text, "Films\nYear: 1990. Year:");
  EXPECT_EQ(task_named("swde@v0").ask(page).text, page.columns["text"].get<std::string>());
}

TEST(Tasks, NamesAndVersionsAreTold) {
  EXPECT_EQ(task_named("swde@v1").name, "swde");
  EXPECT_EQ(task_named("swde@v0").version, 0);
  const TaskSelection both = select_tasks(std::vector<std::string>{"ai2_arc,piqa", "arc_easy"});
  EXPECT_EQ(both.tasks.size(), 3u);
  EXPECT_EQ(both.groups.size(), 1u);
  expect_mentions(message_of([] { task_named("helaswag"); }, ExitCode::usage), {"helaswag", "'hellaswag'"});
  message_of([] { select_tasks(std::vector<std::string>{","}); }, ExitCode::usage);
}

TEST(Tasks, MissingColumnsNameTheNearest) {
  const std::string message =
      message_of([] { task_named("piqa").ask(row_of(R"({"goall": "a", "sol1": "b", "sol2": "c", "label": 0})")); },
                 ExitCode::data);
  expect_mentions(message, {"row", "'goal'", "'goall'"});
  expect_mentions(
      message_of([] { task_named("piqa").ask(row_of(R"({"goal": "a", "sol1": "b", "sol2": "", "label": 0})")); },
                 ExitCode::data),
      {"choice 2", "empty"});
  expect_mentions(
      message_of([] { task_named("boolq").ask(row_of(R"({"passage": "a", "question": "b", "label": -1})")); },
                 ExitCode::data),
      {"-1", "label"});
}

TEST(Prompts, BadDocumentsAreLeftOutAndCounted) {
  const TestFolder folder;
  std::ofstream(folder / "piqa.jsonl") << R"({"goal": "a", "sol1": "b", "sol2": "c", "label": 0})"
                                       << "\nnot json\n"
                                       << R"({"goal": null, "sol1": "b", "sol2": "c", "label": 0})"
                                       << "\n\n"
                                       << R"({"goal": "d", "sol1": "e", "sol2": "f", "label": 1})"
                                       << "\n";
  EvalOptions options;
  options.data_dir = folder.path();
  const PreparedTask prepared = prepare_task(task_named("piqa"), options);
  ASSERT_EQ(prepared.bad.size(), 2u);
  EXPECT_EQ(prepared.bad[0].id, 1);
  expect_mentions(prepared.bad[0].reason, {"piqa.jsonl:2"});
  expect_mentions(prepared.bad[1].reason, {"piqa.jsonl:3", "goal", "null"});
  EXPECT_EQ(prepared.samples.size(), 2u);
  EXPECT_EQ(prepared.samples[1].id, 3);
  expect_mentions(message_of([&] { prepare_task(task_named("boolq"), options); }, ExitCode::data), {"boolq"});
  options.num_fewshot = 1;
  expect_mentions(message_of([&] { prepare_task(task_named("piqa"), options); }, ExitCode::data), {"train"});
}

TEST(Prompts, ExamplesComeBeforeTheDocument) {
  EvalOptions options;
  options.data_dir = fixtures;
  options.num_fewshot = 2;
  options.limit = 3;
  const PreparedTask nq = prepare_task(task_named("nq_open"), options);
  const std::string& prompt = nq.samples[0].arguments[0].first;
  EXPECT_TRUE(prompt.starts_with("Answer these questions:\n\nQ: "));
  EXPECT_EQ(std::count(prompt.begin(), prompt.end(), '\n'), 2 + 2 * 2 + 1);
  EXPECT_TRUE(prompt.ends_with("Q: " + nq.samples[0].question.document["question"].get<std::string>() + "?\nA:"));
}

TEST(Custom, TemplatesReadColumnsAndWhatIsInside) {
  const Row row = row_of(R"({"a": " x ", "b": {"c": [1, "two", 2.5]}, "d": true})");
  EXPECT_EQ(Template("{{a}}|{{ a | strip }}|{{b.c.0}}{{b.c.1}} {{b.c.2}} {{d}} }}", "t").render(row),
            " x |x|1two 2.5 true }}");
  EXPECT_EQ(Template("{{b.c}}", "t").render_list(row), (std::vector<std::string>{"1", "two", "2.5"}));
  for (const char* bad : {"{{a", "{{}}", "{{a|upper}}", "{{a..b}}"}) {
    message_of([&] { Template(bad, "t"); }, ExitCode::config);
  }
  expect_mentions(message_of([&] { Template("{{aa}}", "t").render(row); }, ExitCode::data), {"aa"});
  message_of([&] { Template("{{b}}", "t").render(row); }, ExitCode::data);
  message_of([&] { Template("{{b.c.7}}", "t").render(row); }, ExitCode::data);
}

TEST(Custom, FilesThatDescribeNoTaskAreRefused) {
  const TestFolder folder;
  const auto load = [&](const std::string& text) {
    std::ofstream(folder / "task.json") << text;
    return load_custom_task(folder / "task.json");
  };
  const std::string good = R"("data": "d.jsonl", "template": "{{a}}", "choices": ["x", "y"], "label": "{{b}}")";
  EXPECT_EQ(load("{" + good + "}").name, "task");
  expect_mentions(message_of([&] { load("{" + good + R"(, "metrik": "acc"})"); }, ExitCode::config),
                  {"metrik", "'metric'"});
  expect_mentions(message_of([&] { load("{" + good + R"(, "metric": "perplexity"})"); }, ExitCode::config),
                  {"perplexity", "acc_norm"});
  expect_mentions(message_of([&] { load("{" + good + R"(, "stop": "."})"); }, ExitCode::config), {"stop"});
  expect_mentions(message_of([&] { load(R"({"template": "{{a}}"})"); }, ExitCode::config), {"data"});
  expect_mentions(message_of([&] { load(R"({"data": "d", "template": "t", "choices": ["x"]})"); }, ExitCode::config),
                  {"label"});
  message_of([&] { load("[]"); }, ExitCode::config);
  message_of([&] { load(R"({"data": "d", "template": "t", "choices": []})"); }, ExitCode::config);
  const Task task = load("{" + good + "}");
  EXPECT_EQ(task.ask(row_of(R"({"a": "q", "b": "y"})")).gold, 1u);
  EXPECT_EQ(task.ask(row_of(R"({"a": "q", "b": 0})")).gold, 0u);
  message_of([&] { task.ask(row_of(R"({"a": "q", "b": "z"})")); }, ExitCode::data);
}

}  // namespace
}  // namespace satformer
