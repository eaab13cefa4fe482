// `satformer prepare --synthetic TASK`: generated examples instead of text.
#pragma once

#include <span>
#include <string>

namespace satformer::cli {

bool asks_for_synthetic(std::span<const std::string> arguments);
int run_prepare_synthetic(std::span<const std::string> arguments);

}  // namespace satformer::cli
