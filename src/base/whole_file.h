// Files read whole into memory.
#pragma once

#include <cstddef>
#include <string>

namespace satformer {

// What is no regular file (a pipe, a device) may give so much: /dev/zero has no end.
constexpr std::size_t stream_limit = std::size_t{1} << 30;  // bytes

// Error(system) naming the file and errno's text; of a stream beyond stream_limit that of EFBIG.
std::string read_whole(const std::string& path);
std::string read_standard_input();

}  // namespace satformer
