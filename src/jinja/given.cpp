#include "jinja/given.h"

#include <algorithm>

#include "base/error.h"

namespace satformer::jinja {

Given::Given(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names)
    : function_(function) {
  if (arguments.positional.size() > names.size()) {
    fail(ExitCode::data, function_, "() takes ", names.size(), " arguments, not ", arguments.positional.size());
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    values_.emplace_back(names.begin()[i], &arguments.positional[i]);
  }
  for (const auto& [key, value] : arguments.named) {
    const auto known = std::find(names.begin(), names.end(), key);
    if (known == names.end()) fail(ExitCode::data, function_, "() takes no argument '", key, "'");
    if (find(*known)) fail(ExitCode::data, function_, "() is given '", key, "' twice");
    values_.emplace_back(*known, &value);
  }
}

const Value* Given::find(std::string_view name) const {
  for (const auto& [known, value] : values_) {
    if (known == name) return value;
  }
  return nullptr;
}

const Value& Given::at(std::string_view name) const {
  const Value* found = find(name);
  if (!found) fail(ExitCode::data, function_, "() asks for '", name, "'");
  return *found;
}

std::string Given::text(std::string_view name) const {
  const Value& value = at(name);
  if (value.is_undefined()) fail(ExitCode::data, value.get<Undefined>()->why);
  if (!value.text())
    fail(ExitCode::data, function_, "(): '", name, "' must be a text, not '", value.type_name(), "'");
  return *value.text();
}

std::string Given::text(std::string_view name, std::string otherwise) const {
  const Value* found = find(name);
  return found && !found->is_none() ? text(name) : std::move(otherwise);
}

std::int64_t Given::whole(std::string_view name, std::int64_t otherwise) const {
  const Value* found = find(name);
  if (!found || found->is_none()) return otherwise;
  if (!found->integer()) {
    fail(ExitCode::data, function_, "(): '", name, "' must be a whole number, not '", found->type_name(), "'");
  }
  return *found->integer();
}

bool Given::flag(std::string_view name, bool otherwise) const {
  const Value* found = find(name);
  return found ? found->truth() : otherwise;
}

}  // namespace satformer::jinja
