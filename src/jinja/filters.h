// The filters by name.
#pragma once

#include <string_view>
#include <vector>

#include "jinja/interpreter.h"

namespace satformer::jinja {

struct NamedFilter {
  std::string_view name;
  Value (*apply)(Interpreter& in, const Value& input, const Arguments& arguments);
};
const std::vector<NamedFilter>& text_filters();
const std::vector<NamedFilter>& list_filters();

}  // namespace satformer::jinja
