// The Python files of src/checkpoint/hf and src/checkpoint/gguf, built into the program (files.cmake).
#pragma once

#include <string_view>

namespace satformer {

std::string_view hf_file(std::string_view name);  // Error(internal) if there is none of that name

}  // namespace satformer
