// The letters that byte-level vocabularies write bytes with: printable bytes stand for themselves, others for U+0100
// and following.
#pragma once

#include <string>

namespace satformer {

std::string byte_letter(unsigned char byte);  // UTF-8
int byte_of_letter(char32_t letter);          // -1: not of the alphabet

}  // namespace satformer
