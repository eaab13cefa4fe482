// "1 document", "2 documents".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace satformer {

// Of a noun whose plural is it and an s.
std::string count_of(std::integral auto count, std::string_view thing) {
  return std::to_string(count).append(" ").append(thing).append(count == 1 ? "" : "s");
}

}  // namespace satformer
