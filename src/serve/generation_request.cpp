#include "serve/generation_request.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <random>

namespace satformer::serve {
namespace {

constexpr std::int64_t max_choices = 1024, max_stops = 64, max_stop_bytes = 1024;

const std::vector<std::string> common_fields = {"model",
                                                "temperature",
                                                "top_p",
                                                "top_k",
                                                "min_p",
                                                "repetition_penalty",
                                                "presence_penalty",
                                                "frequency_penalty",
                                                "logit_bias",
                                                "seed",
                                                "n",
                                                "stop",
                                                "stream",
                                                "stream_options",
                                                "max_tokens",
                                                "user",
                                                "ignore_eos",
                                                "gates",
                                                "intervention"};

std::vector<std::string> with(const std::vector<std::string>& more) {
  std::vector<std::string> all = common_fields;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::pair<std::int64_t, double>> read_bias(const Fields& fields, std::int64_t vocab_size) {
  std::vector<std::pair<std::int64_t, double>> bias;
  if (!fields.has("logit_bias")) return bias;
  const Json& map = fields.at("logit_bias");
  if (!map.is_object()) fields.refuse("logit_bias", "an object from token ids to numbers");
  for (const auto& [key, value] : map.items()) {
    std::int64_t id = -1;
    const auto end = std::from_chars(key.data(), key.data() + key.size(), id);
    if (end.ec != std::errc() || end.ptr != key.data() + key.size() || id < 0 || id >= vocab_size) {
      throw ApiError(400, concat("'logit_bias': keys must be token ids from 0 to ", vocab_size - 1), "logit_bias");
    }
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100)) {
      throw ApiError(400, "'logit_bias': values must be numbers from -100 to 100", "logit_bias");
    }
    bias.emplace_back(id, value.get<double>());
  }
  return bias;
}

// What both bodies share.
void read_common(const Fields& fields, const Engine& engine, GenerationRequest& request) {
  fields.text("model", {});  // any name: there is one model
  fields.text("user", {});
  SamplingOptions& sampling = request.task.sampling;
  sampling.temperature = fields.number("temperature", 1.0, 0, 100);
  sampling.top_p = fields.number("top_p", 1.0, 0, 1);
  if (sampling.top_p == 0) sampling.top_k = 1;  // the likeliest token alone
  if (sampling.top_p == 0) sampling.top_p = 1;
  sampling.top_k = std::max<std::int64_t>(sampling.top_k, fields.integer("top_k", 0, -1, engine.vocab_size()));
  if (sampling.top_k < 0) sampling.top_k = 0;
  sampling.min_p = fields.number("min_p", 0, 0, 1);
  sampling.repetition_penalty = fields.number("repetition_penalty", 1, 0.01, 100);
  sampling.presence_penalty = fields.number("presence_penalty", 0, -2, 2);
  sampling.frequency_penalty = fields.number("frequency_penalty", 0, -2, 2);
  sampling.bias = read_bias(fields, engine.vocab_size());
  sampling.seed = fields.has("seed")
                      ? static_cast<std::uint64_t>(fields.integer("seed", 0, INT64_MIN, INT64_MAX))
                      : (static_cast<std::uint64_t>(std::random_device{}()) << 20) ^ std::random_device{}();
  request.n = fields.integer("n", 1, 1, 128);
  request.task.stop = fields.texts("stop");
  if (std::ssize(request.task.stop) > max_stops) {
    throw ApiError(400, concat("'stop' has more than ", max_stops, " strings"), "stop");
  }
  for (const std::string& stop : request.task.stop) {
    if (std::ssize(stop) > max_stop_bytes) {
      throw ApiError(400, concat("a string of 'stop' is longer than ", max_stop_bytes, " bytes"), "stop");
    }
  }
  request.stream = fields.flag("stream", false);
  if (fields.has("stream_options")) {
    const Fields options(fields.at("stream_options"), {"include_usage"}, "stream_options.");
    request.include_usage = options.flag("include_usage", false);
    if (!request.stream) throw ApiError(400, "'stream_options' goes with 'stream': true", "stream_options");
  }
  request.task.ignore_eos = fields.flag("ignore_eos", false);
  request.task.gates = fields.flag("gates", false);
  request.task.intervention = fields.text("intervention", {});
}

// A stop string that is the name of a special token stands for that token, which has no text.
void add_stop_ids(const TokenText& text, EngineTask& task) {
  for (const std::string& stop : task.stop) {
    const std::vector<std::int64_t> ids = text.encode(stop, false, true);
    if (ids.size() != 1 || !text.tokenizer().is_special(static_cast<std::int32_t>(ids[0]))) continue;
    if (ids[0] != text.tokenizer().eos_id()) task.stop_ids.push_back(ids[0]);
  }
}

// Each prompt with what is asked must be possible before any work begins.
void check(const GenerationRequest& request, const Engine& engine) {
  if (std::ssize(request.prompts) * request.n > max_choices) {
    throw ApiError(400,
                   concat(request.prompts.size(), " prompts with 'n' of ", request.n, " are more than ", max_choices,
                          " choices"),
                   "n");
  }
  EngineTask task = request.task;
  for (const auto& prompt : request.prompts) {
    task.prompt = prompt;
    try {
      engine.check(task);
    } catch (const Error& error) {
      const bool length = error.code() == ExitCode::config;
      throw ApiError(api_error(error).status(), error.what(), length ? "prompt" : "",
                     length ? "context_length_exceeded" : "");
    }
  }
}

std::vector<std::vector<std::int64_t>> read_prompts(const Fields& fields, std::int64_t vocab_size,
                                                    const TokenText& text) {
  const char* expected = "a text, a list of texts, a list of token ids or a list of such lists";
  const auto encode = [&](const std::string& prompt) {
    std::vector<std::int64_t> ids = text.encode(prompt, true, true);
    // Training documents follow an EOS, so an empty prompt starts a document.
    if (ids.empty()) ids.push_back(text.tokenizer().eos_id());
    return ids;
  };
  if (!fields.has("prompt")) throw ApiError(400, concat("'prompt' is missing: ", expected), "prompt");
  const Json& prompt = fields.at("prompt");
  if (prompt.is_string()) return {encode(prompt.get<std::string>())};
  if (!prompt.is_array()) fields.refuse("prompt", expected);
  if (prompt.empty()) throw ApiError(400, "'prompt' is an empty list", "prompt");
  if (prompt.front().is_number()) return {token_ids(prompt, vocab_size, "prompt")};
  std::vector<std::vector<std::int64_t>> prompts;
  if (std::ssize(prompt) > max_choices) {
    throw ApiError(400, concat("'prompt' has more than ", max_choices, " prompts"), "prompt");
  }
  for (const Json& item : prompt) {
    if (item.type() != prompt.front().type()) fields.refuse("prompt", expected);
    if (item.is_string()) {
      prompts.push_back(encode(item.get<std::string>()));
    } else if (item.is_array()) {
      if (item.empty()) throw ApiError(400, "'prompt' has an empty list of token ids", "prompt");
      prompts.push_back(token_ids(item, vocab_size, "prompt"));
    } else {
      fields.refuse("prompt", expected);
    }
  }
  return prompts;
}

}  // namespace

std::vector<EngineTask> GenerationRequest::tasks() const {
  std::vector<EngineTask> all;
  for (const auto& prompt : prompts) {
    for (std::int64_t i = 0; i < n; ++i) {
      all.push_back(task);
      all.back().prompt = prompt;
      all.back().sampling.seed += static_cast<std::uint64_t>(i);
    }
  }
  return all;
}

GenerationRequest read_completion(const Json& body, const Engine& engine, const TokenText& text) {
  const Fields fields(body, with({"prompt", "echo", "logprobs", "best_of", "suffix"}));
  GenerationRequest request;
  read_common(fields, engine, request);
  request.prompts = read_prompts(fields, engine.vocab_size(), text);
  request.echo = fields.flag("echo", false);
  request.task.top_logprobs = fields.integer("logprobs", -1, 0, 20);
  request.task.prompt_logprobs = request.echo && request.task.top_logprobs >= 0;
  if (fields.has("suffix") && !fields.text("suffix", {}).empty()) {
    throw ApiError(400, "'suffix' is not possible: these models write forwards only", "suffix");
  }
  if (fields.integer("best_of", request.n, 1, 128) != request.n) {
    throw ApiError(400, "'best_of' must be equal to 'n'", "best_of");
  }
  std::int64_t longest = 0;
  for (const auto& prompt : request.prompts) longest = std::max(longest, std::ssize(prompt));
  const std::int64_t usual = std::clamp<std::int64_t>(engine.max_context() - longest, 1, 16);
  request.task.max_new_tokens = fields.integer("max_tokens", usual, 0, INT32_MAX);
  if (request.task.max_new_tokens == 0 && !request.echo) {
    throw ApiError(400, "'max_tokens' of 0 is for 'echo': true alone", "max_tokens");
  }
  add_stop_ids(text, request.task);
  check(request, engine);
  return request;
}

GenerationRequest read_chat(const Json& body, const Engine& engine, const TokenText& text,
                            const ChatTemplate& chat_template) {
  std::vector<std::string> known = with({"max_completion_tokens", "logprobs", "top_logprobs", "response_format"});
  known.insert(known.end(), conversation_fields.begin(), conversation_fields.end());
  const Fields fields(body, known);
  GenerationRequest request;
  request.chat = true;
  read_common(fields, engine, request);
  if (fields.has("response_format")) {
    const Fields format(fields.at("response_format"), {"type"}, "response_format.");
    if (format.text("type", "text") != "text") {
      throw ApiError(400, "'response_format': only {\"type\": \"text\"} is possible", "response_format");
    }
  }
  const std::string prompt = chat_template.prompt(read_conversation(fields));
  request.prompts = {text.encode(prompt, !chat_template.puts_bos(), chat_template.uses_special_tokens())};
  if (request.prompts[0].empty()) request.prompts[0].push_back(text.tokenizer().eos_id());
  for (const std::string& stop : chat_template.stop()) request.task.stop.push_back(stop);
  request.trim_start = !chat_template.uses_special_tokens();
  const bool logprobs = fields.flag("logprobs", false);
  const std::int64_t top = fields.integer("top_logprobs", 0, 0, 20);
  if (top > 0 && !logprobs) throw ApiError(400, "'top_logprobs' goes with 'logprobs': true", "top_logprobs");
  request.task.top_logprobs = logprobs ? top : -1;
  const char* limit = fields.has("max_completion_tokens") ? "max_completion_tokens" : "max_tokens";
  const std::int64_t room = std::max<std::int64_t>(1, engine.max_context() - std::ssize(request.prompts[0]));
  request.task.max_new_tokens = fields.integer(limit, room, 1, INT32_MAX);
  add_stop_ids(text, request.task);
  check(request, engine);
  return request;
}

}  // namespace satformer::serve
