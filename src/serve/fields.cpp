#include "serve/fields.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace satformer::serve {
namespace {

constexpr int max_keys = 8192;

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

// Adding a key takes time in proportion to those before it, so their number has a limit, too.
bool too_many_keys(const std::string& body) {
  int keys = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ':' && ++keys > max_keys) {
      return true;
    }
  }
  return false;
}

std::string short_dump(const Json& value) {
  std::string text = dump(value);
  if (text.size() <= 60) return text;
  std::size_t end = 57;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // characters stay whole
  return text.substr(0, end) + "...";
}

}  // namespace

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json error_json(int status, const std::string& message, const std::string& param, const std::string& code) {
  Json error = {{"message", message}, {"type", type_of(status)}};
  error["param"] = param.empty() ? Json(nullptr) : Json(param);
  error["code"] = code.empty() ? Json(status) : Json(code);
  return {{"error", std::move(error)}};
}

HttpReply error_reply(int status, const std::string& message) {
  return {status, "application/json", dump(error_json(status, message)), {}};
}

HttpReply ApiError::reply() const {
  HttpReply reply{status_, "application/json", dump(error_json(status_, what(), param_, code_)), {}};
  if (status_ == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status_ == 429) reply.headers.emplace_back("Retry-After", "1");
  return reply;
}

ApiError api_error(const Error& error, const std::string& param) {
  switch (error.code()) {
    case ExitCode::usage:
    case ExitCode::config:
    case ExitCode::data:
      return ApiError(400, error.what(), param);
    default:
      return ApiError(500, error.what());
  }
}

Json parse_body(const std::string& body) {
  if (too_many_keys(body)) throw ApiError(400, concat("the body has more than ", max_keys, " keys"));
  Json json;
  try {
    json = parse_json(body, "body");
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (!json.is_object()) throw ApiError(400, "the body must be a JSON object");
  return json;
}

Fields::Fields(const Json& object, const std::vector<std::string>& known, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object.is_object()) throw ApiError(400, concat("'", where_, "' must be an object"), where_);
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw ApiError(400, concat("field '", where_, name.substr(0, 80), "' is unknown.", did_you_mean(name, known)),
                     name.substr(0, 80), "unknown_field");
    }
  }
}

bool Fields::has(const std::string& name) const { return object_.contains(name) && !object_.at(name).is_null(); }

void Fields::refuse(const std::string& name, const std::string& expected) const {
  throw ApiError(400, concat("'", where_, name, "' must be ", expected, ", not ", short_dump(object_.at(name))),
                 where_ + name);
}

std::string Fields::text(const std::string& name, const std::string& otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_string()) refuse(name, "a string");
  return at(name).get<std::string>();
}

bool Fields::flag(const std::string& name, bool otherwise) const {
  if (!has(name)) return otherwise;
  if (!at(name).is_boolean()) refuse(name, "true or false");
  return at(name).get<bool>();
}

std::int64_t Fields::integer(const std::string& name, std::int64_t otherwise, std::int64_t low,
                             std::int64_t high) const {
  if (!has(name)) return otherwise;
  const Json& value = at(name);
  const std::string expected = concat("a whole number from ", low, " to ", high);
  if (!value.is_number_integer()) refuse(name, expected);
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::max<std::int64_t>(high, 0))) {
    refuse(name, expected);
  }
  const auto number = value.get<std::int64_t>();
  if (number < low || number > high) refuse(name, expected);
  return number;
}

double Fields::number(const std::string& name, double otherwise, double low, double high) const {
  if (!has(name)) return otherwise;
  const Json& value = at(name);
  const std::string expected = concat("a number from ", low, " to ", high);
  if (!value.is_number()) refuse(name, expected);
  const auto number = value.get<double>();
  if (!(number >= low && number <= high)) refuse(name, expected);
  return number;
}

std::vector<std::string> Fields::texts(const std::string& name) const {
  std::vector<std::string> list;
  if (!has(name)) return list;
  const Json& value = at(name);
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) refuse(name, "a string or a list of strings");
  for (const Json& item : value) {
    if (!item.is_string()) refuse(name, "a string or a list of strings");
    list.push_back(item.get<std::string>());
  }
  return list;
}

std::int64_t token_id(const Json& value, std::int64_t vocab_size, const std::string& param) {
  if (!value.is_number_integer() || value < 0 || value >= vocab_size) {
    throw ApiError(400,
                   concat("'", param, "': a token id must be a whole number from 0 to ", vocab_size - 1, ", not ",
                          short_dump(value)),
                   param);
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> token_ids(const Json& list, std::int64_t vocab_size, const std::string& param) {
  std::vector<std::int64_t> ids;
  ids.reserve(list.size());
  for (const Json& value : list) ids.push_back(token_id(value, vocab_size, param));
  return ids;
}

}  // namespace satformer::serve
