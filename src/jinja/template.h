// Templates in the language Jinja, as models carry them for conversations: what published chat templates use of it.
// There is no way out of one: no files, no other templates, nothing that changes what it was given.
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"

namespace satformer::jinja {

struct Limits {
  std::size_t work = 5'000'000;  // expressions, elements, and pieces of 64 bytes that are made
  std::size_t text = 64u << 20;  // bytes of one text, the result too
  int depth = 300;               // expressions and statements within one another, macros that call macros
};

class Template {
 public:
  // Error(data) "ORIGIN: line N: ..." for what cannot be parsed.
  Template(std::string_view source, std::string origin);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  bool uses(const std::string& variable) const;  // whether its name is in an expression
  // `variables`: an object. `now`: for strftime_now. Error(data): "ORIGIN: line N: ..." or, from raise_exception, the
  // template's own message. Thread-safe.
  std::string render(const Json& variables, std::time_t now, const Limits& limits = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace satformer::jinja
