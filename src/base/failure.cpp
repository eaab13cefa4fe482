#include "base/failure.h"

#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

namespace satformer {

std::string json_problem(const std::exception& error) {
  const std::string text = error.what();
  const auto end = text.starts_with("[json.exception") ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

Failure failure_of(const std::exception& error) {
  const std::string text = error.what();
  if (const auto* known = dynamic_cast<const Error*>(&error)) return {known->code(), text};
  bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  for (const char* words : {"not enough memory", "out of memory", "allocate memory"}) {
    memory = memory || text.find(words) != std::string::npos;
  }
  if (memory) return {ExitCode::memory, "out of memory: a smaller batch_size, seq_length or model would fit"};
  if (dynamic_cast<const nlohmann::json::exception*>(&error)) return {ExitCode::data, "JSON: " + json_problem(error)};
  if (dynamic_cast<const std::system_error*>(&error)) return {ExitCode::system, text};
  return {ExitCode::internal, text.substr(0, text.find('\n'))};
}

}  // namespace satformer
