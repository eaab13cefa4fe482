// What an exception of any origin means to the user.
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace satformer {

struct Failure {
  ExitCode code;
  std::string message;  // one line
};
// Error as it is; memory that could not be had, which each library tells in its own way, is `memory`; what the file
// system refused is `system`; a JSON value of another type than its reader expects is `data`; anything else is
// `internal`, with the first line of its text (libtorch appends its stack).
Failure failure_of(const std::exception& error);
// What an exception of the JSON library says, without its number: "type must be string, but is object".
std::string json_problem(const std::exception& error);

}  // namespace satformer
