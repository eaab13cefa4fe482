// The fields of a JSON request: types, bounds and unknown names, with the error that a client is sent.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/http.h"

namespace satformer::serve {

// An error for the client: OpenAI's JSON with this status.
class ApiError : public std::runtime_error {
 public:
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}
  int status() const { return status_; }
  HttpReply reply() const;

 private:
  int status_;
  std::string param_, code_;
};
// {"error": {"message", "type", "param", "code"}}; the type follows from the status.
Json error_json(int status, const std::string& message, const std::string& param = {}, const std::string& code = {});
HttpReply error_reply(int status, const std::string& message);
// 400 for what a client can mend, 500 for the rest.
ApiError api_error(const Error& error, const std::string& param = {});

// The body of a request: a JSON object in UTF-8.
Json parse_body(const std::string& body);

class Fields {
 public:
  // 400 for a field that is not among `known`, with the nearest name. `where` comes before names in messages.
  Fields(const Json& object, const std::vector<std::string>& known, std::string where = {});

  bool has(const std::string& name) const;  // and it is not null
  const Json& at(const std::string& name) const { return object_.at(name); }
  std::string text(const std::string& name, const std::string& otherwise) const;
  bool flag(const std::string& name, bool otherwise) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise, std::int64_t low, std::int64_t high) const;
  double number(const std::string& name, double otherwise, double low, double high) const;
  std::vector<std::string> texts(const std::string& name) const;  // a text or a list of them; empty without the field
  [[noreturn]] void refuse(const std::string& name, const std::string& expected) const;

 private:
  const Json& object_;
  std::string where_;
};

// A token id of a list; 400 for what is not one of the vocabulary.
std::int64_t token_id(const Json& value, std::int64_t vocab_size, const std::string& param);
std::vector<std::int64_t> token_ids(const Json& list, std::int64_t vocab_size, const std::string& param);

std::string dump(const Json& json);

}  // namespace satformer::serve
