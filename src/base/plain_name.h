// Names that a user gives to tasks, arms and data: they stand in tables and become names of files.
#pragma once

#include <algorithm>
#include <string_view>

namespace satformer {

inline constexpr std::string_view plain_name_rule =
    "1 to 80 characters without slashes, line ends and outer spaces, not beginning with a dot";

inline bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F && c != '/' && c != '\\';
  };
  return !name.empty() && name.size() <= 80 && name.front() != '.' && name.front() != ' ' && name.back() != ' ' &&
         std::all_of(name.begin(), name.end(), plain);
}

}  // namespace satformer
