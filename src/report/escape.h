// Text made safe for XML, HTML and JSON inside a script element.
#pragma once

#include <string>
#include <string_view>

namespace satformer {

// Escapes &, <, > and quotes. Bytes that are not UTF-8 become U+FFFD, control characters their pictures (U+2400 ...;
// tab, line feed and carriage return a space), so that the result is well-formed XML whatever the text is.
std::string escape_xml(std::string_view text);

// A JSON string literal, quotes included, in ASCII without <, > and &: it cannot end the script element that holds
// it.
std::string json_literal(std::string_view text);

}  // namespace satformer
