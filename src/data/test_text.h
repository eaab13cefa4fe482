// Text files for tests.
#pragma once

#include <zlib.h>

#include <string>

#include "io/file.h"

namespace satformer {

inline std::string gzip(const std::string& text) {
  z_stream zlib{};
  deflateInit2(&zlib, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&zlib, static_cast<uLong>(text.size())) + 32, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  deflate(&zlib, Z_FINISH);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

inline std::string with_crlf(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
  return out;
}

// Lines of pseudo-random words, the same every time.
inline std::string some_text(std::size_t bytes, std::uint64_t seed = 1) {
  static const char* words[] = {"the",  "gated",   "value",       "of", "layer",
                                "zero", "returns", "caf\xC3\xA9", "--", "42."};
  std::string text;
  for (std::uint64_t state = seed; text.size() < bytes;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += words[(state >> 33) % 10];
    text += (state >> 50) % 9 == 0 ? (state >> 55) % 4 == 0 ? "\n\n" : "\n" : " ";
  }
  return text;
}

}  // namespace satformer
