// Completions for bash, zsh and fish, made from the option tables.
#pragma once

#include <string>

namespace satformer::cli {

// `shell`: bash, zsh or fish. Error(usage) for another.
std::string completion_script(const std::string& shell);

}  // namespace satformer::cli
