// Names of tensors in the files of other programs.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace satformer {

// `name` with each first part that occurs in it replaced by its second, in order.
inline std::string renamed(std::string name, std::span<const std::pair<const char*, const char*>> parts) {
  for (const auto& [ours, theirs] : parts) {
    const std::size_t at = name.find(ours);
    if (at != std::string::npos) name.replace(at, std::string_view(ours).size(), theirs);
  }
  return name;
}

}  // namespace satformer
