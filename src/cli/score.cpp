#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/text_options.h"
#include "eval/rows.h"
#include "io/file.h"

namespace satformer::cli {
namespace {

const std::vector<std::string> known_keys = {"context",     "continuation",     "choices",  "text",         "until",
                                             "context_ids", "continuation_ids", "text_ids", "max_gen_toks", "id"};

// One line: what is asked, and the line of its answer.
struct Line {
  std::string origin;
  std::vector<LikelihoodRequest> likelihoods;
  std::optional<GenerationRequest> generation;
  bool choices = false, rolling = false;
  Json answer;
  bool done = false;
};

std::vector<std::int64_t> ids_of(const Columns& columns, const char* name) {
  std::vector<std::int64_t> ids;
  const Json& list = columns.at(name);
  for (const Json& item : list) {
    if (!list.is_array() || !item.is_number_integer()) {
      fail(ExitCode::data, columns.origin(), ": '", name, "' must be a list of token ids");
    }
    ids.push_back(item.get<std::int64_t>());
  }
  return ids;
}

std::vector<std::string> stops_of(const Columns& columns) {
  return columns.at("until").is_string() ? std::vector<std::string>{columns.text("until")} : columns.texts("until");
}

Line read_line(const Row& row, const TextModel& model, std::int64_t stride) {
  if (!row.error.empty()) fail(ExitCode::data, row.error);
  const Columns columns(row);
  for (const auto& [key, value] : row.columns.items()) {
    if (std::find(known_keys.begin(), known_keys.end(), key) == known_keys.end()) {
      fail(ExitCode::data, row.origin, ": key '", key, "' is unknown.", did_you_mean(key, known_keys));
    }
  }
  // What a line asks for, by its keys: one thing.
  const std::vector<std::vector<const char*>> kinds = {
      {"until", "max_gen_toks"}, {"text", "text_ids"}, {"continuation", "continuation_ids"}, {"choices"}};
  const char* asked = nullptr;
  for (const auto& kind : kinds) {
    const auto present = std::find_if(kind.begin(), kind.end(), [&](const char* key) { return columns.has(key); });
    if (present == kind.end()) continue;
    if (asked) fail(ExitCode::data, row.origin, ": '", asked, "' and '", *present, "' exclude one another");
    asked = *present;
  }
  Line line;
  line.origin = row.origin;
  if (columns.has("until") || columns.has("max_gen_toks")) {
    GenerationRequest request;
    if (columns.has("max_gen_toks")) request.max_new_tokens = columns.integer("max_gen_toks");
    if (request.max_new_tokens < 1) fail(ExitCode::data, row.origin, ": 'max_gen_toks' must be at least 1");
    if (columns.has("until")) request.stop = stops_of(columns);
    if (request.max_new_tokens >= model.max_length) {
      fail(ExitCode::data, row.origin, ": 'max_gen_toks' of ", request.max_new_tokens,
           columns.has("max_gen_toks") ? "" : " (the default)", " leaves no room for a prompt in the context of ",
           model.max_length);
    }
    request.prompt = columns.has("context_ids") ? ids_of(columns, "context_ids")
                                                : model.prompt(columns.text("context"), request.max_new_tokens);
    const std::int64_t whole = std::ssize(request.prompt) + request.max_new_tokens;
    if (whole > model.max_length) {
      fail(ExitCode::data, row.origin, ": a prompt of ", request.prompt.size(), " tokens and ",
           request.max_new_tokens, " new ones are longer than the context of ", model.max_length);
    }
    line.generation = std::move(request);
  } else if (columns.has("text") || columns.has("text_ids")) {
    line.rolling = true;
    line.likelihoods = columns.has("text") ? model.rolling(columns.text("text"), model.max_length, stride)
                                           : rolling_windows(ids_of(columns, "text_ids"), model.prefix_token,
                                                             model.max_length, stride);
    if (line.likelihoods.empty()) fail(ExitCode::data, row.origin, ": the text has no token");
  } else if (columns.has("continuation_ids")) {
    line.likelihoods = {{ids_of(columns, "context_ids"), ids_of(columns, "continuation_ids")}};
  } else if (columns.has("choices")) {
    line.choices = true;
    const std::vector<std::string> choices = columns.texts("choices");
    if (choices.empty()) fail(ExitCode::data, row.origin, ": 'choices' is empty");
    for (const std::string& choice : choices) line.likelihoods.push_back(model.pair(columns.text("context"), choice));
  } else {
    line.likelihoods = {model.pair(columns.text("context"), columns.text("continuation"))};
  }
  for (const LikelihoodRequest& request : line.likelihoods) {
    try {
      check_request(request, model.max_length, model.model.config().vocab_size);
    } catch (const Error& error) {
      fail(error.code(), row.origin, ": ", error.what());
    }
  }
  if (columns.has("id")) line.answer["id"] = columns.at("id");
  return line;
}

Json answer_of(const Line& line, std::span<const Likelihood> results) {
  Json answer = line.answer.is_null() ? Json::object() : line.answer;
  std::int64_t tokens = 0;
  for (const LikelihoodRequest& request : line.likelihoods) tokens += std::ssize(request.continuation);
  if (line.choices) {
    answer["loglikelihoods"] = Json::array();
    answer["is_greedy"] = Json::array();
    for (const Likelihood& r : results) {
      answer["loglikelihoods"].push_back(r.sum);
      answer["is_greedy"].push_back(r.greedy);
    }
  } else {
    double sum = 0;
    bool greedy = true;
    for (const Likelihood& r : results) {
      sum += r.sum;
      greedy = greedy && r.greedy;
    }
    answer["loglikelihood"] = sum;
    if (!line.rolling) answer["is_greedy"] = greedy;
  }
  answer["tokens"] = tokens;
  return answer;
}

// Answers in the order of the lines, each as soon as all before it are there.
class OrderedOutput {
 public:
  OrderedOutput(std::vector<Line>& lines, AtomicFile* file) : lines_(lines), file_(file) {}
  void answer(std::size_t index, Json json) {
    lines_[index].answer = std::move(json);
    lines_[index].done = true;
    ++answered_;
    for (; next_ < lines_.size() && lines_[next_].done; ++next_) {
      const std::string text = lines_[next_].answer.dump() + "\n";
      if (file_) {
        file_->write(text);
      } else {
        std::fwrite(text.data(), 1, text.size(), stdout);
      }
    }
    progress_.update(concat("score: ", answered_, "/", lines_.size(), " lines"));
  }

 private:
  std::vector<Line>& lines_;
  AtomicFile* file_;
  std::size_t next_ = 0, answered_ = 0;
  ProgressLine progress_;
};

}  // namespace

int run_score(std::span<const std::string> arguments) {
  TextOptions text_options;
  std::string input, output;
  std::int64_t stride = 0;
  Options options(
      "score",
      "Log-likelihoods (nats) of JSON lines, in batches. A line holds \"context\" and \"continuation\", or "
      "\"context\" and \"choices\", or \"text\" alone, or, to generate, \"context\" and \"until\" and/or "
      "\"max_gen_toks\"; ids instead of text in \"context_ids\", \"continuation_ids\", \"text_ids\".");
  text_options.add_to(options);
  options.add("input", input, "JSON lines, also .gz or .zst; - for standard input", true)
      .add("--stride", stride, "\"text\": new tokens of a window (0: disjoint windows)")
      .add("--output,-o", output, "File of the answers, one line each (default: standard output)");
  if (!options.parse(arguments)) return 0;
  text_options.check();
  if (stride < 0) fail(ExitCode::usage, "--stride ", stride, " must be at least 0");

  std::error_code error;
  if (!output.empty() && std::filesystem::equivalent(input, output, error)) {
    fail(ExitCode::usage, "--output '", output, "' is the input itself, which would be replaced");
  }
  std::optional<AtomicFile> file;  // opened now, so that a bad path is told before the work
  if (!output.empty()) file.emplace(output);
  const std::vector<Row> rows = read_rows(std::vector<std::string>{input});
  const LoadedText model = load_text_model(text_options);
  const TextModel& text = *model.text;
  std::vector<Line> lines;
  for (const Row& row : rows) lines.push_back(read_line(row, text, stride > 0 ? stride : text.max_length));

  OrderedOutput answers(lines, file ? &*file : nullptr);
  std::vector<std::vector<LikelihoodRequest>> groups;
  std::vector<GenerationRequest> generations;
  std::vector<std::size_t> group_lines, generation_lines;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].generation) {
      generations.push_back(*lines[i].generation);
      generation_lines.push_back(i);
    } else {
      groups.push_back(lines[i].likelihoods);
      group_lines.push_back(i);
    }
  }
  LikelihoodOptions likelihood;
  likelihood.batch_size = text_options.batch_size;
  likelihood.max_length = text.max_length;
  likelihood.observer = text.observer;
  likelihood.done = [&](std::size_t group, std::span<const Likelihood> results) {
    answers.answer(group_lines[group], answer_of(lines[group_lines[group]], results));
    return true;
  };
  score_groups(text.model, groups, likelihood);
  GenerationOptions generation;
  generation.batch_size = text_options.batch_size;
  generation.done = [&](std::size_t request, const std::string& generated) {
    Json json = lines[generation_lines[request]].answer;
    if (json.is_null()) json = Json::object();
    json["text"] = generated;
    answers.answer(generation_lines[request], std::move(json));
    return true;
  };
  generate_texts(text, generations, generation);
  if (file) file->commit();
  return 0;
}

}  // namespace satformer::cli
