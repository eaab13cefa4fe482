#include "serve/generation.h"

#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "base/unicode.h"
#include "serve/generation_format.h"

namespace satformer::serve {
namespace {

using Clock = std::chrono::steady_clock;

std::string new_id(const char* prefix) {
  std::random_device device;
  char text[40];
  std::snprintf(text, sizeof text, "%s-%08x%08x%08x", prefix, device(), device(), device());
  return text;
}

// One answer of a request.
struct Choice {
  std::int64_t prompt = 0;
  std::string text;
  std::vector<TokenResult> prompt_tokens, tokens;
  std::vector<float> gates;
  std::int64_t gates_told = 0, new_tokens = 0;
  FinishReason finish = FinishReason::none;
  bool began = false;
  std::unique_ptr<LogprobLists> lists;  // of a stream
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  Generation(const GenerationContext& context, GenerationRequest request, std::shared_ptr<HttpExchange> exchange)
      : context_(context),
        request_(std::move(request)),
        exchange_(std::move(exchange)),
        id_(new_id(request_.chat ? "chatcmpl" : "cmpl")),
        created_(std::time(nullptr)),
        start_(Clock::now()) {}

  void start() {
    std::vector<EngineTask> tasks = request_.tasks();
    std::vector<EngineSink> sinks;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      choices_.emplace_back();
      choices_.back().prompt = static_cast<std::int64_t>(i) / request_.n;
      sinks.push_back([self = shared_from_this(), i](const EngineEvent& event) { self->take(i, event); });
    }
    left_ = tasks.size();
    const auto tickets = context_.engine.submit(std::move(tasks), std::move(sinks));
    if (tickets.empty()) {
      context_.metrics.queue_full();
      throw ApiError(429, "the queue is full: try again in a moment", {}, "queue_full");
    }
    {
      const std::lock_guard lock(mutex_);
      tickets_ = tickets;
      if (failed_) cancel();
    }
    exchange_->on_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        const std::lock_guard lock(self->mutex_);
        self->cancel();
      }
    });
  }

 private:
  // With the mutex held.
  void cancel() {
    for (const auto& ticket : tickets_) ticket->cancel();
  }

  // On the engine's thread.
  void take(std::size_t index, const EngineEvent& event) {
    Choice& choice = choices_[index];
    if (!told_first_ && (!event.tokens.empty() || event.finish == FinishReason::length)) {
      told_first_ = true;
      context_.metrics.first_token(std::chrono::duration<double>(Clock::now() - start_).count());
    }
    choice.new_tokens += std::ssize(event.tokens);
    if (event.finish != FinishReason::none) {
      choice.finish = event.finish;
      --left_;
    }
    if (event.finish == FinishReason::error || event.finish == FinishReason::cancelled) {
      fail(event);
    } else if (!failed_) {
      if (request_.stream) {
        stream(index, event);
      } else {
        choice.text += event.text;
        choice.prompt_tokens.insert(choice.prompt_tokens.end(), event.prompt.begin(), event.prompt.end());
        if (request_.task.top_logprobs >= 0) {
          choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
        }
        choice.gates.insert(choice.gates.end(), event.gates.begin(), event.gates.end());
      }
    }
    if (left_ > 0) return;
    if (!failed_ && request_.stream) {
      if (request_.include_usage) {
        Json json = head(true);
        json["choices"] = Json::array();
        json["usage"] = usage();
        send(json);
      }
      exchange_->write("data: [DONE]\n\n");
      exchange_->end_stream();
    } else if (!failed_) {
      context_.workers.post([self = shared_from_this()] { self->answer(); });
    }
    context_.metrics.request_seconds(std::chrono::duration<double>(Clock::now() - start_).count());
  }

  void fail(const EngineEvent& event) {
    if (failed_) return;
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
      cancel();
    }
    const bool gone = event.finish == FinishReason::cancelled;
    const ApiError error =
        gone ? ApiError(503, "the server is shutting down") : api_error(Error(event.code, event.error));
    if (began_) {
      exchange_->write("data: " + error.reply().body + "\n\n");
      exchange_->end_stream();
    } else {
      exchange_->reply(error.reply());
    }
  }

  Json head(bool chunk) const {
    Json json;
    json["id"] = id_;
    json["object"] = !request_.chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
    json["created"] = created_;
    json["model"] = context_.model_name;
    return json;
  }

  Json usage() const {
    std::int64_t prompt = 0, added = 0;
    for (const auto& ids : request_.prompts) prompt += std::ssize(ids);
    for (const Choice& choice : choices_) added += choice.new_tokens;
    return {{"prompt_tokens", prompt}, {"completion_tokens", added}, {"total_tokens", prompt + added}};
  }

  const std::vector<std::int64_t>& prompt_of(const Choice& choice) const {
    return request_.prompts[static_cast<std::size_t>(choice.prompt)];
  }

  void send(const Json& json) {
    std::string text = "data: " + dump(json) + "\n\n";
    if (began_) return exchange_->write(std::move(text));
    began_ = true;
    exchange_->begin_stream({200, "text/event-stream", std::move(text), {{"Cache-Control", "no-cache"}}});
  }

  std::unique_ptr<LogprobLists> new_lists(const Choice& choice) const {
    const auto& prompt = prompt_of(choice);
    if (request_.echo) return std::make_unique<LogprobLists>(context_.text, 0);
    auto lists = std::make_unique<LogprobLists>(context_.text, count_characters(context_.text.decode(prompt)));
    lists->skip(prompt);
    return lists;
  }

  std::string trimmed(const std::string& text, bool first) const {
    return request_.trim_start && first && text.starts_with(' ') ? text.substr(1) : text;
  }

  void stream(std::size_t index, const EngineEvent& event) {
    Choice& choice = choices_[index];
    const bool logprobs = request_.task.top_logprobs >= 0, first = !choice.began;
    choice.began = true;
    Json json = head(true);
    Json one = {{"index", index}};
    if (request_.chat) {
      if (first) {
        Json role = head(true);
        Json start = {{"index", index},
                      {"delta", {{"role", "assistant"}, {"content", ""}}},
                      {"logprobs", nullptr},
                      {"finish_reason", nullptr}};
        role["choices"] = Json::array({std::move(start)});
        if (request_.include_usage) role["usage"] = nullptr;
        send(role);
      }
      const std::string text = trimmed(event.text, choice.text.empty());
      choice.text += event.text.substr(0, 1);  // that there was text
      one["delta"] = Json::object();
      if (!text.empty() || event.finish == FinishReason::none) one["delta"]["content"] = text;
      one["logprobs"] = nullptr;
      if (logprobs) {
        one["logprobs"] = {{"content", Json::array()}};
        for (const TokenResult& token : event.tokens)
          one["logprobs"]["content"].push_back(chat_logprob(token, context_.text));
      }
    } else {
      one["text"] = (first && request_.echo ? context_.text.decode(prompt_of(choice)) : std::string()) + event.text;
      one["logprobs"] = nullptr;
      if (logprobs) {
        if (!choice.lists) choice.lists = new_lists(choice);
        one["logprobs"] = LogprobLists::empty();
        if (first && request_.echo) choice.lists->add_prompt(prompt_of(choice), event.prompt, one["logprobs"]);
        for (const TokenResult& token : event.tokens) choice.lists->add(token, one["logprobs"]);
      }
    }
    one["finish_reason"] = event.finish == FinishReason::none ? Json(nullptr) : Json(finish_name(event.finish));
    if (request_.task.gates) {
      one["gates"] = gates_json(context_.engine, choice.gates_told, event.gates);
      choice.gates_told += std::ssize(one["gates"]["values"]);
    }
    json["choices"] = Json::array({std::move(one)});
    if (request_.include_usage) json["usage"] = nullptr;
    send(json);
  }

  // On a worker's thread, when all is done.
  void answer() {
    Json json = head(false);
    json["choices"] = Json::array();
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json one = {{"index", i}};
      const bool logprobs = request_.task.top_logprobs >= 0;
      if (request_.chat) {
        one["message"] = {{"role", "assistant"}, {"content", trimmed(choice.text, true)}};
        one["logprobs"] = nullptr;
        if (logprobs) {
          one["logprobs"] = {{"content", Json::array()}};
          for (const TokenResult& token : choice.tokens) {
            one["logprobs"]["content"].push_back(chat_logprob(token, context_.text));
          }
        }
      } else {
        one["text"] = (request_.echo ? context_.text.decode(prompt_of(choice)) : std::string()) + choice.text;
        one["logprobs"] = nullptr;
        if (logprobs) {
          one["logprobs"] = LogprobLists::empty();
          const auto lists = new_lists(choice);
          if (request_.echo) lists->add_prompt(prompt_of(choice), choice.prompt_tokens, one["logprobs"]);
          for (const TokenResult& token : choice.tokens) lists->add(token, one["logprobs"]);
        }
      }
      one["finish_reason"] = finish_name(choice.finish);
      if (request_.task.gates) one["gates"] = gates_json(context_.engine, 0, choice.gates);
      json["choices"].push_back(std::move(one));
    }
    json["usage"] = usage();
    exchange_->reply({200, "application/json", dump(json), {}});
  }

  const GenerationContext& context_;
  const GenerationRequest request_;
  const std::shared_ptr<HttpExchange> exchange_;
  const std::string id_;
  const std::int64_t created_;
  const Clock::time_point start_;
  // Of the engine's thread.
  std::vector<Choice> choices_;
  std::size_t left_ = 0;
  bool began_ = false, told_first_ = false;
  std::mutex mutex_;  // of what follows
  std::vector<std::shared_ptr<EngineTicket>> tickets_;
  bool failed_ = false;
};

}  // namespace

void start_generation(const GenerationContext& context, GenerationRequest request,
                      const std::shared_ptr<HttpExchange>& exchange) {
  std::make_shared<Generation>(context, std::move(request), exchange)->start();
}

}  // namespace satformer::serve
