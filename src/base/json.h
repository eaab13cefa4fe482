// JSON reading with errors that name the file, line and column; duplicate keys are refused.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace satformer {

using Json = nlohmann::ordered_json;

// `origin` names the text in error messages (a path). Throws Error(code).
Json parse_json(std::string_view text, std::string_view origin, ExitCode code = ExitCode::config);
Json read_json_file(const std::string& path, ExitCode code = ExitCode::config);

// Calls `visit` with each value that is no object, or an empty one, and its keys joined by dots, in order.
void visit_leaves(const Json& json, const std::function<void(const std::string& key, const Json& value)>& visit);

// "/training/dtype", a pointer of Json::flatten(), as a user writes it: "training.dtype".
std::string dotted_key(std::string pointer);

}  // namespace satformer
