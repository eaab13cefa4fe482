#include "report/escape.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/unicode.h"

namespace satformer {

std::string escape_xml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto [c, size] = first_code_point(text);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else if (c == '\t' || c == '\n' || c == '\r') {
      out += ' ';
    } else if (c < 0x20) {
      append_utf8(out, 0x2400 + c);
    } else if (c == 0x7f) {
      append_utf8(out, 0x2421);
    } else if (c == 0xfffe || c == 0xffff) {
      append_utf8(out, 0xfffd);  // XML has no way to write them
    } else {
      append_utf8(out, c);
    }
    text.remove_prefix(size);
  }
  return out;
}

std::string json_literal(std::string_view text) {
  const std::string ascii = Json(std::string(text)).dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string out;
  for (const char c : ascii) {
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace satformer
