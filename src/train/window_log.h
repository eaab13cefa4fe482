// The log of the windows that a run trained on, in order: a line "epoch shard offset" for each.
#pragma once

#include <cstdint>
#include <string>

#include "data/window_source.h"
#include "data/windows.h"

namespace satformer {

// The line of the window at `position` of the training order.
std::string window_line(const WindowSource& windows, const WindowOrder& order, std::int64_t position);

// Takes from a log what a killed run wrote after its last checkpoint: the line of `position`, where it goes on now,
// all behind it, and a line without its end. Nothing is done where there is no such file.
void cut_window_log(const std::string& path, const WindowSource& windows, const WindowOrder& order,
                    std::int64_t position);

}  // namespace satformer
