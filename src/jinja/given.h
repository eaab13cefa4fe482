// The arguments of a function, filter or method, by the names of its parameters.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace satformer::jinja {

class Given {
 public:
  // Error(data) for arguments that `names` has not, for too many, and for one that is given twice.
  Given(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names);

  const Value* find(std::string_view name) const;  // nullptr: not given
  const Value& at(std::string_view name) const;    // Error(data) if it is not given
  std::string text(std::string_view name) const;
  std::string text(std::string_view name, std::string otherwise) const;  // for none, too
  std::int64_t whole(std::string_view name, std::int64_t otherwise) const;
  bool flag(std::string_view name, bool otherwise) const;

 private:
  std::string function_;
  std::vector<std::pair<std::string_view, const Value*>> values_;
};

}  // namespace satformer::jinja
