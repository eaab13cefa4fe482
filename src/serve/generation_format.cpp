#include "serve/generation_format.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/unicode.h"

namespace satformer::serve {

Json LogprobLists::empty() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

void LogprobLists::add_name(std::int64_t id, Json& lists) {
  lists["tokens"].push_back(text_.name(id));
  lists["text_offset"].push_back(offset_);
  if (id < text_.tokenizer().vocab_size()) offset_ += count_characters(decoder_.push(static_cast<std::int32_t>(id)));
}

void LogprobLists::skip(const std::vector<std::int64_t>& prompt) {
  for (const std::int64_t id : prompt) {
    if (id < text_.tokenizer().vocab_size()) decoder_.push(static_cast<std::int32_t>(id));
  }
  decoder_.finish();
}

void LogprobLists::add_prompt(const std::vector<std::int64_t>& prompt, const std::vector<TokenResult>& results,
                              Json& lists) {
  add_name(prompt.front(), lists);
  lists["token_logprobs"].push_back(nullptr);
  lists["top_logprobs"].push_back(nullptr);
  for (const TokenResult& result : results) add(result, lists);
}

void LogprobLists::add(const TokenResult& token, Json& lists) {
  add_name(token.id, lists);
  const auto value = static_cast<double>(token.logprob);
  lists["token_logprobs"].push_back(value);
  Json top = Json::object();
  // Descending, and several ids may have one text: the first has the largest value.
  for (const TokenLogprob& other : token.top) {
    const std::string name = text_.name(other.id);
    if (!top.contains(name)) top[name] = static_cast<double>(other.logprob);
  }
  const std::string name = text_.name(token.id);
  if (!top.contains(name)) top[name] = value;
  lists["top_logprobs"].push_back(std::move(top));
}

Json chat_logprob(const TokenResult& token, const TokenText& text) {
  const auto entry = [&](std::int64_t id, float logprob) {
    Json bytes = Json::array();
    for (const char c : text.bytes(id)) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
    return Json{{"token", text.name(id)}, {"logprob", static_cast<double>(logprob)}, {"bytes", std::move(bytes)}};
  };
  Json result = entry(token.id, token.logprob);
  result["top_logprobs"] = Json::array();
  for (const TokenLogprob& other : token.top) result["top_logprobs"].push_back(entry(other.id, other.logprob));
  return result;
}

Json gates_json(const Engine& engine, std::int64_t first_token, const std::vector<float>& gates) {
  const auto& layout = engine.gate_layout();
  const auto heads = static_cast<std::size_t>(engine.gate_heads());
  Json entries = Json::array(), values = Json::array();
  for (const GateEntry& entry : layout) entries.push_back({{"layer", entry.layer}, {"source", entry.source}});
  for (std::size_t at = 0; at < gates.size();) {
    Json token = Json::array();
    for (std::size_t e = 0; e < layout.size(); ++e) {
      Json list = Json::array();
      for (std::size_t h = 0; h < heads; ++h) {
        list.push_back(std::round(static_cast<double>(gates[at++]) * 1e5) / 1e5);
      }
      token.push_back(std::move(list));
    }
    values.push_back(std::move(token));
  }
  return {
      {"entries", std::move(entries)}, {"heads", heads}, {"first_token", first_token}, {"values", std::move(values)}};
}

const char* finish_name(FinishReason reason) { return reason == FinishReason::length ? "length" : "stop"; }

}  // namespace satformer::serve
