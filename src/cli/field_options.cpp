#include "cli/field_options.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace satformer::cli {

FieldOptions::FieldOptions(Options& options, ConfigBinding& fields, const std::set<std::string>& except)
    : fields_(fields) {
  for (const Field& field : fields.fields()) {
    if (except.count(field.path)) continue;
    given_.push_back({field.path, {}});
    std::string name = field.path;
    std::replace(name.begin(), name.end(), '_', '-');
    options.add("--" + name, given_.back().value, field.help + " (default " + field_value(field).dump() + ")");
  }
}

std::vector<std::string> FieldOptions::apply() {
  std::vector<std::string> paths;
  for (const Given& given : given_) {
    if (given.value.empty()) continue;
    fields_.apply_override(given.path + "=" + given.value);
    paths.push_back(given.path);
  }
  return paths;
}

}  // namespace satformer::cli
