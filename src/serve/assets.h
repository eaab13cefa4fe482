// The files of serve/assets, built into the program (cmake/SatformerEmbed.cmake).
#pragma once

#include <string_view>

namespace satformer::serve {

struct Asset {
  std::string_view text;
  std::string_view sha256;  // hexadecimal
};

// Error(internal) if there is none of that name.
Asset asset(std::string_view name);

}  // namespace satformer::serve
