// What filters and methods of texts share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace satformer::jinja {

std::string upper_text(std::string_view text);
std::string lower_text(std::string_view text);
std::string capitalised(std::string_view text);  // the first letter large, the others small
std::string title_text(std::string_view text, bool after_any_sign);
std::string replaced(std::string_view text, std::string_view from, std::string_view to, std::int64_t most);
// Both ends by default; without `characters` white space.
std::string_view stripped(std::string_view text, const std::optional<std::string>& characters, bool left = true,
                          bool right = true);
std::vector<std::string> split_text(std::string_view text, const std::optional<std::string>& at, std::int64_t most,
                                    bool from_right);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

}  // namespace satformer::jinja
