// A strict check of well-formed XML, for tests: elements, attributes, references and characters; no declarations.
#pragma once

#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/unicode.h"

namespace satformer {

class XmlCheck {
 public:
  // Empty, or what is wrong and where.
  static std::string problem(std::string_view xml) {
    XmlCheck check(xml);
    return check.run();
  }

 private:
  explicit XmlCheck(std::string_view xml) : xml_(xml) {}

  std::string run() {
    for (std::string_view rest = xml_; !rest.empty();) {
      const auto [c, size] = first_code_point(rest);
      if (c == 0xfffd && size == 1) return "not UTF-8";
      if ((c < 0x20 && c != '\n' && c != '\t') || c == 0xfffe || c == 0xffff) return "a character XML has not";
      rest.remove_prefix(size);
    }
    std::vector<std::string> open;
    bool rooted = false;
    while (at_ < xml_.size()) {
      if (xml_[at_] != '<') {
        if (open.empty() && xml_[at_] != '\n') return wrong("text outside the root");
        if (!character()) return wrong("a bare &");
        continue;
      }
      ++at_;
      if (take('/')) {
        if (open.empty() || name() != open.back()) return wrong("an end of another element");
        open.pop_back();
        if (!take('>')) return wrong("an end tag");
        continue;
      }
      if (open.empty() && rooted) return wrong("a second root");
      rooted = true;
      const std::string element = name();
      if (element.empty()) return wrong("a bare <");
      std::set<std::string> seen;
      while (take(' ')) {
        const std::string attribute = name();
        if (attribute.empty() || !seen.insert(attribute).second)
          return wrong("an attribute without a name, or twice");
        if (!take('=') || !take('"')) return wrong("an attribute without a value");
        while (at_ < xml_.size() && xml_[at_] != '"') {
          if (xml_[at_] == '<' || !character()) return wrong("a value with < or &");
        }
        if (!take('"')) return wrong("an open value");
      }
      const bool empty = take('/');
      if (!take('>')) return wrong("a tag");
      if (!empty) open.push_back(element);
    }
    return open.empty() && rooted ? "" : "an element is open at the end";
  }

  bool take(char c) {
    if (at_ >= xml_.size() || xml_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::string name() {
    std::string out;
    while (at_ < xml_.size() &&
           (std::isalnum(static_cast<unsigned char>(xml_[at_])) || xml_[at_] == '-' || xml_[at_] == ':')) {
      out += xml_[at_++];
    }
    return out;
  }

  // One character of text, or one reference.
  bool character() {
    if (xml_[at_] != '&') {
      ++at_;
      return true;
    }
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
      if (xml_.substr(at_, known.size()) != known) continue;
      at_ += known.size();
      return true;
    }
    return false;
  }

  std::string wrong(const std::string& what) const {
    return what + " near: " + std::string(xml_.substr(at_ > 60 ? at_ - 60 : 0, 120));
  }

  std::string_view xml_;
  std::size_t at_ = 0;
};

inline int count_of(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

}  // namespace satformer
