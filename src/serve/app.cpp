#include "serve/app.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/failure.h"
#include "serve/assets.h"
#include "serve/fields.h"
#include "serve/generation.h"
#include "serve/workers.h"

namespace satformer::serve {
namespace {

struct Route {
  const char* method;
  const char* path;
  bool open;    // without a key, and while the model is being loaded
  bool worker;  // takes time
};
constexpr Route routes[] = {
    {"GET", "/", true, false},
    {"GET", "/assets/app.css", true, false},
    {"GET", "/assets/app.js", true, false},
    {"GET", "/assets/strip.js", true, false},
    {"GET", "/health", true, false},
    {"GET", "/metrics", true, false},
    {"GET", "/v1/models", false, false},
    {"GET", "/tokenizer_info", false, false},
    {"POST", "/tokenize", false, true},
    {"POST", "/detokenize", false, true},
    {"POST", "/v1/completions", false, true},
    {"POST", "/v1/chat/completions", false, true},
};

// In time that does not tell how much of a key is right.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

HttpReply json_reply(const Json& json) { return {200, "application/json", dump(json), {}}; }

}  // namespace

struct App::Impl {
  explicit Impl(AppOptions o) : options(std::move(o)), started(std::time(nullptr)) {}

  std::optional<HttpReply> admit(const HttpRequest& head) const;
  void handle(const std::shared_ptr<HttpExchange>& exchange);
  void answer(const std::shared_ptr<HttpExchange>& exchange);
  HttpReply page(const std::string& path) const;
  HttpReply health() const;
  Json models() const;
  Json tokenizer_info() const;
  Json tokenize(const Json& body) const;
  Json detokenize(const Json& body) const;

  const AppOptions options;
  const std::time_t started;
  Metrics metrics;
  std::atomic<const HttpCounts*> http{nullptr};
  std::unique_ptr<LoadedParts> parts;
  std::unique_ptr<GenerationContext> context;
  std::atomic<bool> ready{false};  // parts and context are there
  Workers workers{2};
};

std::optional<HttpReply> App::Impl::admit(const HttpRequest& head) const {
  const Route* found = nullptr;
  for (const Route& route : routes) {
    if (head.path == route.path && (!found || head.method == route.method)) found = &route;
  }
  const bool one_model = !found && head.path == "/v1/models/" + options.model_name;
  if (!found && !one_model) return error_reply(404, "no such path: " + head.path.substr(0, 100));
  const std::string method = found ? found->method : "GET";
  if (head.method != method) {
    HttpReply reply = error_reply(405, head.path + " takes " + method + ", not " + head.method.substr(0, 20));
    reply.headers.emplace_back("Allow", method == "GET" ? "GET, HEAD" : method);
    return reply;
  }
  if (found && found->open) return std::nullopt;
  if (!options.api_keys.empty()) {
    const std::string given =
        head.authorization.starts_with("Bearer ") ? head.authorization.substr(7) : std::string();
    bool known = false;
    for (const std::string& key : options.api_keys) known = same_secret(given, key) || known;
    if (!known) {
      return ApiError(
                 401,
                 given.empty() ? "this server asks for a key: Authorization: Bearer KEY" : "the API key is wrong", {},
                 "invalid_api_key")
          .reply();
    }
  }
  if (!ready) return health();
  // What a page of another site can send without asking is no JSON.
  std::string type = head.content_type.substr(0, head.content_type.find(';'));
  while (!type.empty() && type.back() == ' ') type.pop_back();
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
  if (method == "POST" && type != "application/json") {
    return error_reply(415, "Content-Type must be application/json, not '" + type.substr(0, 60) + "'");
  }
  return std::nullopt;
}

void App::Impl::handle(const std::shared_ptr<HttpExchange>& exchange) {
  const std::string& path = exchange->request().path;
  const bool worker = std::any_of(std::begin(routes), std::end(routes),
                                  [&](const Route& route) { return path == route.path && route.worker; });
  if (!worker) return answer(exchange);
  workers.post([this, exchange] { answer(exchange); });
}

void App::Impl::answer(const std::shared_ptr<HttpExchange>& exchange) {
  const std::string path = exchange->request().path;
  try {
    if (path == "/" || path.starts_with("/assets/")) return exchange->reply(page(path));
    if (path == "/health") return exchange->reply(health());
    if (path == "/metrics") {
      const bool loaded = ready;
      const EngineCounts counts = loaded ? parts->engine.counts() : EngineCounts();
      return exchange->reply(
          {200, "text/plain; version=0.0.4; charset=utf-8", metrics.text(loaded ? &counts : nullptr, http), {}});
    }
    if (path == "/v1/models")
      return exchange->reply(json_reply({{"object", "list"}, {"data", Json::array({models()})}}));
    if (path.starts_with("/v1/models/")) return exchange->reply(json_reply(models()));
    if (path == "/tokenizer_info") return exchange->reply(json_reply(tokenizer_info()));
    const Json body = parse_body(std::exchange(exchange->request().body, {}));
    if (path == "/tokenize") return exchange->reply(json_reply(tokenize(body)));
    if (path == "/detokenize") return exchange->reply(json_reply(detokenize(body)));
    GenerationRequest request = path == "/v1/completions"
                                    ? read_completion(body, parts->engine, parts->text)
                                    : read_chat(body, parts->engine, parts->text, parts->chat_template);
    start_generation(*context, std::move(request), exchange);
  } catch (const ApiError& error) {
    exchange->reply(error.reply());
  } catch (const Error& error) {
    exchange->reply(api_error(error).reply());
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    exchange->reply(error_reply(failure.code == ExitCode::memory ? 503 : 500, failure.message));
  }
}

HttpReply App::Impl::page(const std::string& path) const {
  const std::string name = path == "/" ? "index.html" : path.substr(8);
  const char* type = name.ends_with(".css")  ? "text/css; charset=utf-8"
                     : name.ends_with(".js") ? "text/javascript; charset=utf-8"
                                             : "text/html; charset=utf-8";
  HttpReply reply{200, type, std::string(asset(name).text), {}};
  reply.headers = {{"Cache-Control", "no-cache"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Content-Security-Policy",
                    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"}};
  return reply;
}

HttpReply App::Impl::health() const {
  if (ready) return json_reply({{"status", "ok"}});
  return {503,
          "application/json",
          dump({{"error", {{"code", 503}, {"message", "Loading model"}, {"type", "unavailable_error"}}}}),
          {}};
}

Json App::Impl::models() const {
  Json gates = nullptr;
  if (!parts->engine.gate_layout().empty()) {
    Json entries = Json::array();
    for (const GateEntry& entry : parts->engine.gate_layout()) {
      entries.push_back({{"layer", entry.layer}, {"source", entry.source}});
    }
    gates = {{"entries", std::move(entries)}, {"heads", parts->engine.gate_heads()}};
  }
  return {{"id", options.model_name},
          {"object", "model"},
          {"created", started},
          {"owned_by", "satformer"},
          {"max_model_len", parts->engine.max_context()},
          {"architecture", parts->architecture},
          {"parameters", parts->parameters},
          {"chat_template", parts->chat_template.name()},
          {"gates", std::move(gates)}};
}

Json App::Impl::tokenizer_info() const {
  const Tokenizer& tokenizer = parts->text.tokenizer();
  Json info;
  info["tokenizer_class"] = tokenizer.name();
  info["vocab_size"] = tokenizer.vocab_size();
  info["eos_token"] = tokenizer.piece(tokenizer.eos_id());
  info["eos_token_id"] = tokenizer.eos_id();
  if (tokenizer.bos_id() >= 0) {
    info["bos_token"] = tokenizer.piece(tokenizer.bos_id());
    info["bos_token_id"] = tokenizer.bos_id();
  }
  info["add_bos_token"] = parts->text.add_bos();
  info["model_max_length"] = parts->engine.max_context();
  if (!parts->chat_template.source().empty()) info["chat_template"] = parts->chat_template.source();
  return info;
}

Json App::Impl::tokenize(const Json& body) const {
  const Fields fields(body,
                      {"prompt", "content", "add_special_tokens", "parse_special", "model", "return_token_strs"});
  fields.text("model", {});
  if (fields.has("prompt") == fields.has("content")) {
    throw ApiError(400, "one of 'prompt' and 'content' must be given: the text", "prompt");
  }
  const std::string text = fields.text(fields.has("prompt") ? "prompt" : "content", {});
  const std::vector<std::int64_t> ids =
      parts->text.encode(text, fields.flag("add_special_tokens", true), fields.flag("parse_special", true));
  Json answer = {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", parts->engine.max_context()}};
  if (fields.flag("return_token_strs", false)) {
    answer["token_strs"] = Json::array();
    for (const std::int64_t id : ids) answer["token_strs"].push_back(parts->text.name(id));
  }
  return answer;
}

Json App::Impl::detokenize(const Json& body) const {
  const Fields fields(body, {"tokens", "model"});
  fields.text("model", {});
  if (!fields.has("tokens")) throw ApiError(400, "'tokens' is missing: a list of token ids", "tokens");
  if (!fields.at("tokens").is_array()) fields.refuse("tokens", "a list of token ids");
  const std::string text =
      parts->text.decode(token_ids(fields.at("tokens"), parts->text.tokenizer().vocab_size(), "tokens"));
  return {{"prompt", text}, {"content", text}};
}

App::App(AppOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
App::~App() = default;

HttpHandlers App::handlers() {
  HttpHandlers handlers;
  handlers.admit = [this](const HttpRequest& head) { return impl_->admit(head); };
  handlers.handle = [this](const std::shared_ptr<HttpExchange>& exchange) { impl_->handle(exchange); };
  handlers.error = [](int status, const std::string& message) { return error_reply(status, message); };
  return handlers;
}

void App::set_ready(const LoadedParts& parts) {
  impl_->parts = std::make_unique<LoadedParts>(parts);
  impl_->context = std::make_unique<GenerationContext>(
      GenerationContext{parts.engine, parts.text, impl_->workers, impl_->metrics, impl_->options.model_name});
  impl_->ready = true;
}

void App::set_stopped() { impl_->workers.stop(); }

void App::set_counts(const HttpCounts* counts) { impl_->http = counts; }

}  // namespace satformer::serve
