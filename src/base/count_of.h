// "1 document", "2 documents".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace satformer {

// `things` is the plural where that is not the noun with an s.
std::string count_of(std::integral auto count, std::string_view thing, std::string_view things = {}) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(thing);
  return things.empty() ? text.append(thing).append("s") : text.append(things);
}

}  // namespace satformer
