#include "eval/harness.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "eval/compare.h"
#include "eval/results.h"
#include "eval/tasks/list.h"
#include "eval/tasks/text_files.h"
#include "io/file.h"
#include "io/test_folder.h"
#include "models/registry.h"

namespace satformer {
namespace {

struct SmallModel {
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  SmallModel() {
    const Architecture& architecture = architecture_by_name("satformer");
    ModelConfig c = default_model_config(architecture);
    c.vocab_size = 259;
    c.hidden_size = 32;
    c.num_hidden_layers = 2;
    c.num_heads = 2;
    c.intermediate_size = 32;
    c.max_position_embeddings = 768;
    c.initializer_range = 0.3;
    model = make_model(architecture, c, at::kCPU);
    model->parameters().initialise(3);
  }
  TextModel text() const { return {.model = *model, .tokenizer = *tokenizer, .max_length = 768, .prefix_token = 1}; }
};

EvalOptions fixture_options() {
  EvalOptions options;
  options.data_dir = SATFORMER_TEST_DATA "/eval/fixtures";
  options.bootstrap_iters = 1000;
  return options;
}

std::vector<Task> tasks_named(const std::string& names) {
  return select_tasks(std::vector<std::string>{names}).tasks;
}

TEST(Harness, ResultsDoNotDependOnTheBatchSize) {
  const SmallModel small;
  const std::vector<Task> tasks = tasks_named("piqa,winogrande,lambada_openai,nq_open,copy_text");
  EvalOptions options = fixture_options();
  options.max_gen_toks = 12;
  options.limit = 8;
  options.batch_size = 1;
  const auto one = evaluate(small.text(), tasks, options);
  options.batch_size = 7;
  const auto seven = evaluate(small.text(), tasks, options);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    ASSERT_EQ(one[t].samples.size(), 8u);
    for (std::size_t i = 0; i < one[t].samples.size(); ++i) {
      const Response &a = one[t].samples[i].response, &b = seven[t].samples[i].response;
      EXPECT_EQ(a.text, b.text) << tasks[t].name;
      ASSERT_EQ(a.likelihoods.size(), b.likelihoods.size());
      for (std::size_t c = 0; c < a.likelihoods.size(); ++c) {
        EXPECT_NEAR(a.likelihoods[c].first, b.likelihoods[c].first, 1e-3) << tasks[t].name;
      }
    }
  }
}

struct Stopped {};

TEST(Harness, AStoppedRunGoesOnWhereItWas) {
  const SmallModel small;
  const TestFolder folder;
  const std::vector<Task> tasks = tasks_named("piqa,fda");
  EvalOptions options = fixture_options();
  options.batch_size = 2;
  const auto whole = evaluate(small.text(), tasks, options);
  options.log_folder = folder.path();
  options.log_settings["model"] = "one";
  int documents = 0;
  options.progress = [&](const std::string&) {
    if (++documents == 15) throw Stopped{};
  };
  EXPECT_THROW(evaluate(small.text(), tasks, options), Stopped);
  // A line that a kill cut off.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    std::ofstream(entry.path(), std::ios::app) << "{\"doc_id\": 3, \"req";
  }
  int more = 0;
  options.progress = [&](const std::string&) { ++more; };
  const auto resumed = evaluate(small.text(), tasks, options);
  EXPECT_EQ(documents + more, 13 + 10);
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    ASSERT_EQ(resumed[t].samples.size(), whole[t].samples.size());
    EXPECT_EQ(resumed[t].metrics[0]->value, whole[t].metrics[0]->value);
    for (std::size_t i = 0; i < whole[t].samples.size(); ++i) {
      EXPECT_EQ(resumed[t].samples[i].response.text, whole[t].samples[i].response.text);
    }
  }
  // Other settings share nothing with that log.
  options.num_fewshot = 0;
  options.log_settings["model"] = "another";
  more = 0;
  evaluate(small.text(), tasks, options);
  EXPECT_EQ(more, 13 + 10);
}

TEST(Harness, WhatCannotFitIsToldBeforeTheWork) {
  const SmallModel small;
  TextModel narrow = small.text();
  narrow.max_length = 48;
  int answered = 0;
  EvalOptions options = fixture_options();
  options.progress = [&](const std::string&) { ++answered; };
  try {
    evaluate(narrow, tasks_named("piqa,swde"), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    for (const char* part : {"swde", "48"}) EXPECT_NE(std::string(error.what()).find(part), std::string::npos);
  }
  EXPECT_EQ(answered, 0);
  narrow.max_length = 20;  // every answer of piqa is longer
  EXPECT_THROW(evaluate(narrow, tasks_named("piqa"), options), Error);
  EXPECT_EQ(answered, 0);
}

TEST(Harness, TextIsScoredByTokenByteAndWord) {
  const SmallModel small;
  EvalOptions options;
  const std::vector<std::string> files = {SATFORMER_TEST_DATA "/eval/fixtures/prose.txt"};
  const auto plain = evaluate(small.text(), text_tasks(files, "text", false), options);
  const std::string text = read_file(files[0]);
  EXPECT_EQ(plain[0].samples[0].response.tokens, static_cast<std::int64_t>(text.size()));
  EXPECT_NEAR(plain[0].metrics[0]->value, plain[0].metrics[1]->value, 1e-9);  // a token is a byte here
  EXPECT_GT(plain[0].metrics[2]->value, plain[0].metrics[1]->value);
  options.stride = 100;
  const auto strided = evaluate(small.text(), text_tasks(files, "text", false), options);
  EXPECT_NE(strided[0].metrics[0]->value, plain[0].metrics[0]->value);
  EXPECT_EQ(strided[0].samples[0].response.tokens, plain[0].samples[0].response.tokens);
}

TEST(Compare, DifferencesArePairedByDocument) {
  const TestFolder folder;
  const auto write = [&](const char* name, const std::vector<int>& values, const char* hash) {
    std::ofstream out(folder / name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      out << R"({"doc_id": )" << i << R"(, "doc_hash": ")" << hash
          << R"(", "target_hash": "t", "metrics": ["acc"], "acc": )" << values[i] << "}\n";
    }
    return folder / name;
  };
  std::vector<int> a(100, 0), b(100, 0);
  for (int i = 0; i < 100; ++i) {
    a[static_cast<std::size_t>(i)] = i < 50;
    b[static_cast<std::size_t>(i)] = i < 60;
  }
  const std::string first = write("samples_x_1.jsonl", a, "h"), second = write("samples_x_2.jsonl", b, "h");
  const PairedDifference d = compare_samples(first, second).at(0);
  EXPECT_EQ(d.task, "x");
  EXPECT_DOUBLE_EQ(d.difference, 0.1);
  EXPECT_EQ(d.better, 10);
  EXPECT_EQ(d.worse, 0);
  // Ten of a hundred changed: the standard error is 0.03, far below that of unpaired means (0.07).
  EXPECT_NEAR(d.low, 0.1 - 1.96 * 0.03, 0.02);
  EXPECT_NEAR(d.high, 0.1 + 1.96 * 0.03, 0.02);
  EXPECT_EQ(compare_samples(first, first).at(0).high, 0.0);
  EXPECT_THROW(compare_samples(first, write("samples_x_3.jsonl", b, "other")), Error);
  EXPECT_THROW(compare_samples(first, write("samples_y_3.jsonl", b, "h")), Error);
}

TEST(Results, HaveTheLayoutOfLmEval) {
  const SmallModel small;
  const TestFolder folder;
  EvalOptions options = fixture_options();
  options.log_folder = folder.path();
  const TaskSelection selection = select_tasks(std::vector<std::string>{"ai2_arc,swde"});
  const auto results = evaluate(small.text(), selection.tasks, options);
  EvaluationInfo info;
  info.model_name = "runs/a";
  const Json json = results_json(results, selection.groups, info);
  const Json& arc = json["results"]["arc_easy"];
  for (const char* key : {"name", "alias", "sample_len", "acc,none", "acc_stderr,none", "acc_norm,none"}) {
    EXPECT_TRUE(arc.contains(key)) << key;
  }
  EXPECT_EQ(json["results"]["swde"]["contains_stderr,none"], "N/A");
  EXPECT_EQ(json["n-samples"]["arc_easy"]["effective"], 12);
  const double mean =
      (arc["acc,none"].get<double>() + json["results"]["arc_challenge"]["acc,none"].get<double>()) / 2;
  EXPECT_DOUBLE_EQ(json["groups"]["ai2_arc"]["acc,none"].get<double>(), mean);
  const Json sample = sample_json(results[0], results[0].samples[0]);
  EXPECT_EQ(sample["arguments"]["gen_args_0"]["arg_0"], results[0].samples[0].arguments[0].first);
  EXPECT_EQ(sample["resps"][0][0][0], sample["filtered_resps"][0][0]);
  const std::string path = write_results(folder / "out", results, json, info, true);
  EXPECT_NE(path.find("out/runs__a/results_"), std::string::npos);
  for (const TaskResult& r : results) {
    EXPECT_EQ(r.log_paths.size(), 1u);
    for (const std::string& log : r.log_paths) EXPECT_FALSE(std::filesystem::exists(log));
  }
  EXPECT_EQ(compare_samples(path, path).size(), 5u);
  EXPECT_NE(results_table(json).find("arc_challenge"), std::string::npos);
}

}  // namespace
}  // namespace satformer
