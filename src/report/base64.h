#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace satformer {

std::string base64(std::span<const std::uint8_t> bytes);  // RFC 4648, padded

}  // namespace satformer
