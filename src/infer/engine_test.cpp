#include "infer/engine.h"

#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <condition_variable>
#include <functional>
#include <limits>
#include <mutex>
#include <set>

#include "infer/generator.h"
#include "infer/likelihood.h"
#include "infer/stop_text.h"
#include "io/tokenizer.h"
#include "models/registry.h"
#include "nn/device.h"
#include "probe/gate_editor.h"

namespace satformer {
namespace {

std::unique_ptr<Model> byte_model(const Architecture& architecture, std::int64_t context = 128,
                                  const std::function<void(ModelConfig&)>& change = {}) {
  set_num_threads(1);
  ModelConfig c = default_model_config(architecture);
  c.vocab_size = 259;
  c.hidden_size = 32;
  c.num_hidden_layers = 3;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.intermediate_size = 64;
  c.max_position_embeddings = context;
  c.initializer_range = 0.3;
  if (change) change(c);
  auto model = make_model(architecture, c, at::kCPU);
  model->parameters().initialise(5);
  return model;
}

// Two teams of threads, the test's and the engine's, would spin against each other.
EngineOptions one_thread() {
  EngineOptions options;
  options.threads = 1;
  return options;
}

std::vector<std::int64_t> prompt_of(std::int64_t length, std::int64_t salt = 11) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < length; ++i) ids.push_back(3 + (i * 37 + length * salt) % 256);
  return ids;
}

EngineTask greedy(std::vector<std::int64_t> prompt, std::int64_t tokens) {
  EngineTask task;
  task.prompt = std::move(prompt);
  task.max_new_tokens = tokens;
  task.sampling.temperature = 0;
  task.ignore_eos = true;
  return task;
}

struct Answer {
  std::vector<std::int64_t> ids;
  std::vector<TokenResult> prompt, tokens;
  std::string text, error;
  std::vector<float> gates;
  FinishReason finish = FinishReason::none;
  ExitCode code = ExitCode::ok;
};

class Collector {
 public:
  EngineSink sink(std::size_t index) {
    return [this, index](const EngineEvent& event) {
      const std::lock_guard lock(mutex_);
      Answer& answer = answers[index];
      for (const TokenResult& token : event.tokens) {
        answer.tokens.push_back(token);
        answer.ids.push_back(token.id);
      }
      answer.prompt.insert(answer.prompt.end(), event.prompt.begin(), event.prompt.end());
      answer.gates.insert(answer.gates.end(), event.gates.begin(), event.gates.end());
      answer.text += event.text;
      ++events_;
      if (event.finish != FinishReason::none) {
        answer.finish = event.finish;
        answer.code = event.code;
        answer.error = event.error;
        ++finished_;
      }
      changed_.notify_all();
    };
  }
  void wait(std::size_t finished) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return finished_ >= finished; }));
  }
  void wait_events(std::size_t events) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return events_ >= events; }));
  }
  explicit Collector(std::size_t count) : answers(count) {}
  std::vector<Answer> answers;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t finished_ = 0, events_ = 0;
};

std::vector<Answer> ask(Engine& engine, const std::vector<EngineTask>& tasks) {
  Collector collector(tasks.size());
  std::vector<EngineSink> sinks;
  for (std::size_t i = 0; i < tasks.size(); ++i) sinks.push_back(collector.sink(i));
  EXPECT_EQ(engine.submit(tasks, sinks).size(), tasks.size());
  collector.wait(tasks.size());
  return collector.answers;
}

// What generate() gives for one prompt alone.
std::vector<std::int64_t> alone(Model& model, const EngineTask& task) {
  GenerateOptions options;
  options.max_new_tokens = task.max_new_tokens;
  options.sampling = task.sampling;
  return generate(model, {task.prompt}, options)[0];
}

// With full and quantised weights, with and without speculation.
class EngineWeights : public ::testing::TestWithParam<std::tuple<std::string, std::int64_t>> {};

TEST_P(EngineWeights, SixteenTogetherGiveWhatEachGivesAlone) {
  const auto& [weights, speculate] = GetParam();
  const auto tokenizer = make_byte_tokenizer();
  for (const Architecture& a : architectures()) {
    const auto model = byte_model(a);
    if (weights != "full") model->quantise_weights(weights == "int8" ? WeightFormat::int8 : WeightFormat::int4);
    // Of quantised weights prompts that go through the kernels of few tokens, where bits are equal: behind those of
    // many, activations that differ in their last bit may round to another of 16 bits.
    const std::int64_t longest = weights == "full" ? 70 : 16;
    std::vector<EngineTask> tasks;
    for (std::int64_t i = 0; i < 21; ++i) {
      tasks.push_back(greedy(prompt_of(1 + (i * 13) % longest, i), 4 + (i * 7) % 29));
      if (i % 3 == 1) {
        tasks.back().sampling.temperature = 1;
        tasks.back().sampling.top_k = 20;
        tasks.back().sampling.seed = static_cast<std::uint64_t>(i);
      }
    }
    std::vector<std::vector<std::int64_t>> expected;
    for (const EngineTask& task : tasks) expected.push_back(alone(*model, task));
    EngineOptions options = one_thread();
    options.chunk_tokens = weights == "full" ? 24 : 16;
    options.speculate = speculate;
    Engine engine(*model, *tokenizer, options);
    const std::vector<Answer> answers = ask(engine, tasks);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      EXPECT_EQ(answers[i].ids, expected[i]) << a.name << " " << i;
      EXPECT_EQ(answers[i].finish, FinishReason::length);
    }
    // Again, one by one, over what the cache still holds of them.
    for (std::size_t i = 0; i < tasks.size(); i += 5) {
      EXPECT_EQ(ask(engine, {tasks[i]})[0].ids, expected[i]) << a.name << " again " << i;
    }
    EXPECT_EQ(engine.counts().running, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(All, EngineWeights,
                         ::testing::Combine(::testing::Values("full", "int8", "int4"), ::testing::Values(0, 8)),
                         [](const auto& i) {
                           return std::get<0>(i.param) + (std::get<1>(i.param) > 0 ? "_speculating" : "");
                         });

// Long prompts go through products that round by the size of a pass.
TEST(Engine, LongPromptsThatArriveTogetherGetTheBitsOfEachAlone) {
  const auto tokenizer = make_byte_tokenizer();
  for (const bool quantised : {false, true}) {
    const auto model = byte_model(architecture_by_name("satformer"));
    if (quantised) model->quantise_weights(WeightFormat::int8);
    std::vector<EngineTask> tasks;
    for (const std::int64_t length : {70, 9, 33, 18, 50, 7, 17, 64}) {
      tasks.push_back(greedy(prompt_of(length, length), 5));
      tasks.back().top_logprobs = 0;
    }
    Engine all(*model, *tokenizer, one_thread());
    const std::vector<Answer> together = ask(all, tasks);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      Engine fresh(*model, *tokenizer, one_thread());
      const Answer alone = ask(fresh, {tasks[i]})[0];
      ASSERT_EQ(together[i].ids, alone.ids) << i;
      for (std::size_t t = 0; t < alone.tokens.size(); ++t) {
        EXPECT_EQ(together[i].tokens[t].logprob, alone.tokens[t].logprob) << i << " " << t;
      }
    }
  }
}

// The text is the one without speculation; gates are told for the text's tokens alone; stops are where they were.
TEST(Engine, SpeculationChangesNothingButTheNumberOfPasses) {
  const auto tokenizer = make_byte_tokenizer();
  const std::vector<std::function<void(ModelConfig&)>> changes = {
      [](ModelConfig&) {},
      [](ModelConfig& c) { c.value_gate_granularity = "head"; },
      [](ModelConfig& c) { c.value_gate_granularity = "layer"; },
      [](ModelConfig& c) { c.value_path = "svformer"; },
      [](ModelConfig& c) { c.window_size = 9; },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto model = byte_model(architecture_by_name("satformer"), 256, changes[i]);
    EngineTask repeating = greedy(prompt_of(7), 120);
    for (int j = 0; j < 3; ++j) {
      const auto begin = prompt_of(7);
      repeating.prompt.insert(repeating.prompt.end(), begin.begin(), begin.end());
    }
    // Few tokens to choose from, so that they repeat.
    for (std::int64_t id = 10; id < 16; ++id) repeating.sampling.bias.emplace_back(id, 100);
    EngineTask told = repeating, penalised = repeating, sampled = repeating, edited = repeating;
    told.top_logprobs = 2;
    penalised.sampling.frequency_penalty = 0.1;
    sampled.sampling.temperature = 1;
    sampled.sampling.seed = 7;
    edited.intervention = i == 3 ? "" : "zero@layers=2";
    std::vector<EngineTask> tasks = {repeating, told, penalised, sampled, edited};
    if (i != 3) {
      tasks.push_back(repeating);
      tasks.back().gates = true;
    }
    std::vector<std::vector<Answer>> answers;
    std::vector<EngineCounts> counts;
    for (const std::int64_t speculate : {0, 12}) {
      EngineOptions options = one_thread();
      options.speculate = speculate;
      Engine engine(*model, *tokenizer, options);
      answers.push_back(ask(engine, tasks));
      for (const EngineTask& task : tasks) answers.push_back({ask(engine, {task})[0]});
      counts.push_back(engine.counts());
    }
    const std::size_t half = answers.size() / 2;
    for (std::size_t a = 0; a < half; ++a) {
      for (std::size_t t = 0; t < answers[a].size(); ++t) {
        const Answer &without = answers[a][t], &with = answers[half + a][t];
        EXPECT_EQ(with.ids, without.ids) << i << " " << a << " " << t;
        EXPECT_EQ(with.text, without.text);
        EXPECT_EQ(with.gates.size(), without.gates.size());
        for (std::size_t n = 0; n < without.tokens.size(); ++n) {
          EXPECT_NEAR(with.tokens[n].logprob, without.tokens[n].logprob, 1e-5);
        }
      }
    }
    EXPECT_EQ(counts[0].proposed_tokens, 0);
    EXPECT_GT(counts[1].accepted_tokens, 0) << i;
    EXPECT_LE(counts[1].accepted_tokens, counts[1].proposed_tokens);
    EXPECT_LT(counts[1].passes, counts[0].passes) << i;
    EXPECT_EQ(counts[1].new_tokens, counts[0].new_tokens);
  }
}

// What a cache holds besides keys and values of its own layer: running sums, shared values; and windows.
TEST(Engine, EveryKindOfCacheWorksRowByRow) {
  const std::vector<std::function<void(ModelConfig&)>> changes = {
      [](ModelConfig& c) { c.value_gate_granularity = "head"; },
      [](ModelConfig& c) { c.value_gate_granularity = "factorised"; },
      [](ModelConfig& c) { c.value_path = "svformer"; },
      [](ModelConfig& c) { c.window_size = 9; },
  };
  const auto tokenizer = make_byte_tokenizer();
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto model = byte_model(architecture_by_name("satformer"), 128, changes[i]);
    std::vector<EngineTask> tasks;
    for (std::int64_t j = 0; j < 7; ++j) tasks.push_back(greedy(prompt_of(1 + (j * 19) % 60, j), 5 + (j * 11) % 17));
    std::vector<std::vector<std::int64_t>> expected;
    for (const EngineTask& task : tasks) expected.push_back(alone(*model, task));
    EngineOptions options = one_thread();
    options.chunk_tokens = 16;
    options.max_rows = 4;
    Engine engine(*model, *tokenizer, options);
    const std::vector<Answer> answers = ask(engine, tasks);
    for (std::size_t j = 0; j < tasks.size(); ++j) EXPECT_EQ(answers[j].ids, expected[j]) << i << " " << j;
    for (int round = 0; round < 2; ++round) {  // the second one over the first one's prefix
      EXPECT_EQ(ask(engine, {tasks[3]})[0].ids, expected[3]) << i << " round " << round;
    }
    EXPECT_GT(engine.counts().reused_tokens, 0);
  }
}

TEST(Engine, PrefixesAreReused) {
  const auto model = byte_model(architecture_by_name("satformer"));
  const auto tokenizer = make_byte_tokenizer();
  Engine engine(*model, *tokenizer, one_thread());
  EngineTask first = greedy(prompt_of(60), 8);
  const Answer answer = ask(engine, {first})[0];
  EngineTask second = greedy(first.prompt, 9);
  second.prompt.insert(second.prompt.end(), answer.ids.begin(), answer.ids.end());
  second.prompt.push_back(7);
  const std::vector<std::int64_t> expected = alone(*model, second);
  const std::int64_t before = engine.counts().reused_tokens;
  EXPECT_EQ(ask(engine, {second})[0].ids, expected);
  EXPECT_EQ(engine.counts().reused_tokens - before, 67);  // all but the newest token, which was never computed
  second.intervention = "zero";
  ask(engine, {second});
  EXPECT_EQ(engine.counts().reused_tokens - before, 67);  // other gates, other values
}

TEST(Engine, LogprobsAreThoseOfTheLikelihoods) {
  const auto model = byte_model(architecture_by_name("satformer"));
  const auto tokenizer = make_byte_tokenizer();
  EngineTask task = greedy(prompt_of(50), 6);
  task.top_logprobs = 3;
  task.prompt_logprobs = true;
  std::vector<std::int64_t> whole = task.prompt;
  const std::vector<std::int64_t> added = alone(*model, task);
  whole.insert(whole.end(), added.begin(), added.end());
  std::vector<LikelihoodRequest> requests;
  for (std::size_t t = 1; t < whole.size(); ++t) {
    requests.push_back({{whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(t)}, {whole[t]}});
  }
  const std::vector<Likelihood> expected = score_requests(*model, requests, {});
  EngineOptions options = one_thread();
  options.chunk_tokens = 16;
  Engine engine(*model, *tokenizer, options);
  const Answer answer = ask(engine, {task})[0];
  ASSERT_EQ(answer.prompt.size(), 49u);
  ASSERT_EQ(answer.tokens.size(), 6u);
  for (std::size_t t = 0; t + 1 < whole.size(); ++t) {
    const TokenResult& result = t < 49 ? answer.prompt[t] : answer.tokens[t - 49];
    EXPECT_EQ(result.id, whole[t + 1]);
    EXPECT_NEAR(result.logprob, expected[t].sum, 1e-4);
    ASSERT_EQ(result.top.size(), 3u);
    EXPECT_GE(result.top[0].logprob, result.top[1].logprob);
    EXPECT_EQ(result.logprob == result.top[0].logprob, expected[t].greedy);
    if (t >= 49) {
      EXPECT_EQ(result.logprob, result.top[0].logprob);
    }
  }
  task.max_new_tokens = 0;
  const Answer scored = ask(engine, {task})[0];
  EXPECT_EQ(scored.prompt.size(), 49u);
  EXPECT_TRUE(scored.tokens.empty());
}

TEST(Engine, PenaltiesAndBiasSteerTheChoice) {
  const auto model = byte_model(architecture_by_name("transformer"));
  const auto tokenizer = make_byte_tokenizer();
  Engine engine(*model, *tokenizer, one_thread());
  EngineTask task = greedy(prompt_of(9), 12);
  task.sampling.bias = {{80, 1e4}};
  EXPECT_EQ(ask(engine, {task})[0].ids, std::vector<std::int64_t>(12, 80));
  task.sampling.frequency_penalty = 1e6;
  const std::vector<std::int64_t> ids = ask(engine, {task})[0].ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 80), 1);
  EXPECT_EQ(std::set<std::int64_t>(ids.begin(), ids.end()).size(), ids.size());
}

TEST(Engine, GatesAreRecordedAndEdited) {
  const auto model = byte_model(architecture_by_name("satformer"));
  const auto tokenizer = make_byte_tokenizer();
  EngineOptions options = one_thread();
  options.chunk_tokens = 16;
  Engine engine(*model, *tokenizer, options);
  const auto entries = engine.gate_layout().size(), heads = static_cast<std::size_t>(engine.gate_heads());
  ASSERT_EQ(entries, 2u);
  EngineTask plain = greedy(prompt_of(40), 10);
  plain.gates = true;
  EngineTask edited = plain;
  edited.intervention = "zero@layers=2,heads=1";
  EngineTask other = greedy(prompt_of(33), 10);
  const std::vector<Answer> answers = ask(engine, {plain, edited, other});
  EXPECT_EQ(answers[0].ids, alone(*model, plain));
  EXPECT_EQ(answers[2].ids, alone(*model, other));
  GenerateOptions expected;
  expected.max_new_tokens = 10;
  expected.sampling.temperature = 0;
  GateEditor editor(parse_intervention(edited.intervention, edit_space(*model, {})));
  expected.observer = &editor;
  EXPECT_EQ(answers[1].ids, generate(*model, {edited.prompt}, expected)[0]);
  EXPECT_NE(answers[1].ids, answers[0].ids);
  for (const Answer& answer : {answers[0], answers[1]}) EXPECT_EQ(answer.gates.size(), 49 * entries * heads);
  double sum = 0;
  for (std::size_t t = 0; t < 49; ++t) {
    EXPECT_EQ(answers[1].gates[(t * entries + 1) * heads + 1], 0.0f);
    sum += answers[0].gates[(t * entries + 1) * heads + 1];
  }
  EXPECT_GT(sum, 0);
  for (std::size_t i = 0; i < 40 * entries * heads; i += heads) {  // layer 1 of the prompt sees nothing of the edit
    if (i / heads % entries == 0) {
      EXPECT_NEAR(answers[0].gates[i], answers[1].gates[i], 1e-5);
    }
  }
  for (const char* bad : {"shuffle", "mean", "zero@layers=9", "lambda1-zero", "zro"}) {
    edited.intervention = bad;
    EXPECT_THROW(engine.check(edited), Error) << bad;
  }
}

TEST(Engine, BadTasksAreRefused) {
  const auto model = byte_model(architecture_by_name("transformer"));
  const auto tokenizer = make_byte_tokenizer();
  Engine engine(*model, *tokenizer, one_thread());
  EXPECT_NO_THROW(engine.check(greedy(prompt_of(100), 28)));
  EXPECT_THROW(engine.check(greedy(prompt_of(100), 29)), Error);
  EXPECT_THROW(engine.check(greedy({}, 1)), Error);
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{259}, std::int64_t{1} << 31}) {
    EXPECT_THROW(engine.check(greedy({5, id}, 1)), Error);
  }
  EngineTask task = greedy({5}, 1);
  task.gates = true;
  EXPECT_THROW(engine.check(task), Error);
  task = greedy({5}, 1);
  task.sampling.bias = {{259, 1}};
  EXPECT_THROW(engine.check(task), Error);
}

TEST(Engine, FullQueueRefusesAndCancelledSequencesLeave) {
  const auto model = byte_model(architecture_by_name("satformer"), 4096);
  const auto tokenizer = make_byte_tokenizer();
  EngineOptions options = one_thread();
  options.max_rows = 2;
  options.max_waiting = 3;
  Engine engine(*model, *tokenizer, options);
  Collector collector(6);
  const EngineTask endless = greedy(prompt_of(5), 4000);
  std::vector<std::shared_ptr<EngineTicket>> tickets;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto ticket = engine.submit({endless}, {collector.sink(i)});
    ASSERT_EQ(ticket.size(), 1u) << i;
    tickets.push_back(ticket[0]);
  }
  EXPECT_TRUE(engine.submit({endless}, {collector.sink(5)}).empty());
  collector.wait_events(6);
  for (const auto& ticket : tickets) ticket->cancel();
  const auto start = std::chrono::steady_clock::now();
  collector.wait(5);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(200));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(collector.answers[i].finish, FinishReason::cancelled);
  EXPECT_EQ(ask(engine, {greedy(prompt_of(7), 5)})[0].finish, FinishReason::length);
  const EngineCounts counts = engine.counts();
  EXPECT_EQ(counts.running + counts.waiting, 0);
  EXPECT_EQ(counts.cancelled, 5);
}

// A sequence whose logits are not finite fails alone, and what it leaves in the cache harms nobody.
TEST(Engine, NonFiniteLogitsFailTheirSequenceOnly) {
  const auto model = byte_model(architecture_by_name("satformer"));
  const auto tokenizer = make_byte_tokenizer();
  {
    const at::NoGradGuard no_grad;
    model->parameters()
        .find("model.embeddings.weight")
        ->value.select(0, 99)
        .fill_(std::numeric_limits<float>::quiet_NaN());
  }
  Engine engine(*model, *tokenizer, one_thread());
  const EngineTask good = greedy({5, 6, 7, 8, 9}, 20), bad = greedy({5, 99, 7}, 20);
  const std::vector<std::int64_t> expected = ask(engine, {good})[0].ids;
  for (int round = 0; round < 3; ++round) {
    const std::vector<Answer> answers = ask(engine, {good, bad, good});
    EXPECT_EQ(answers[1].finish, FinishReason::error);
    EXPECT_EQ(answers[1].code, ExitCode::non_finite);
    EXPECT_EQ(answers[0].ids, expected);
    EXPECT_EQ(answers[2].ids, expected);
  }
}

TEST(StopText, HoldsBackPartsOfStopsAndOfCharacters) {
  const auto tokenizer = make_byte_tokenizer();
  const auto id = [](char c) { return 3 + static_cast<std::int64_t>(static_cast<unsigned char>(c)); };
  StopText text(*tokenizer, {"STOP", "", "\xC3\xA9t"});
  const auto push = [&](const char* bytes) {
    std::string released;
    for (; *bytes; ++bytes) released += text.push(id(*bytes));
    return released;
  };
  EXPECT_EQ(push("abS"), "ab");
  EXPECT_EQ(push("TO"), "");
  EXPECT_EQ(push("SST"), "STOS");
  EXPECT_EQ(push("x"), "STx");
  EXPECT_EQ(push("\xC3"), "");
  EXPECT_EQ(push("\xA9"), "");  // a whole character, and the beginning of a stop string
  EXPECT_EQ(push("z"), "\xC3\xA9z");
  EXPECT_EQ(push("yeSTO"), "ye");
  EXPECT_EQ(push("P tail"), "");
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(text.finish(), "");
  StopText cut(*tokenizer, {"END"});
  EXPECT_EQ(cut.push(id('E')), "");
  EXPECT_EQ(cut.push(id('\xE2')), "");  // what this begins may yet be anything
  EXPECT_EQ(cut.finish(), "E\xEF\xBF\xBD");
}

// Together with text: the same from the engine, which ends at the stop string.
TEST(Engine, StopsAtStringsAndAtEos) {
  const auto model = byte_model(architecture_by_name("transformer"));
  const auto tokenizer = make_byte_tokenizer();
  Engine engine(*model, *tokenizer, one_thread());
  EngineTask task = greedy(prompt_of(12), 3);
  task.sampling.bias = {{3 + 'q', 1e4}};
  EXPECT_EQ(ask(engine, {task})[0].text, "qqq");
  task.max_new_tokens = 30;
  task.stop = {"qqqqq"};
  const Answer stopped = ask(engine, {task})[0];
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.ids.size(), 5u);
  EXPECT_EQ(stopped.finish, FinishReason::stop);
  task.sampling.bias = {{tokenizer->eos_id(), 1e4}};
  task.ignore_eos = false;
  const Answer ended = ask(engine, {task})[0];
  EXPECT_EQ(ended.ids, std::vector<std::int64_t>{tokenizer->eos_id()});
  EXPECT_EQ(ended.finish, FinishReason::stop);
}

}  // namespace
}  // namespace satformer
