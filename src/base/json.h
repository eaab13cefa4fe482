// JSON reading with errors that name the file, line and column; duplicate keys are refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace satformer {

using Json = nlohmann::ordered_json;

// `origin` names the text in error messages (a path). Throws Error(code).
Json parse_json(std::string_view text, std::string_view origin, ExitCode code = ExitCode::config);
Json read_json_file(const std::string& path, ExitCode code = ExitCode::config);

// "/training/dtype", a pointer of Json::flatten(), as a user writes it: "training.dtype".
std::string dotted_key(std::string pointer);

}  // namespace satformer
