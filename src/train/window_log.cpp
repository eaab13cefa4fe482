#include "train/window_log.h"

#include <filesystem>

#include "base/error.h"
#include "io/file.h"

namespace satformer {

std::string window_line(const WindowSource& windows, const WindowOrder& order, std::int64_t position) {
  const WindowSource::Place place = windows.place(order.window(position));
  return concat(order.epoch(position), ' ', place.shard, ' ', place.offset, '\n');
}

void cut_window_log(const std::string& path, const WindowSource& windows, const WindowOrder& order,
                    std::int64_t position) {
  if (!std::filesystem::is_regular_file(path)) return;
  const std::string text = read_file(path), next = window_line(windows, order, position);
  std::size_t end = text.rfind('\n') + 1;  // 0 where there is no line
  // Epoch, shard and offset name a window once.
  if (text.starts_with(next)) end = 0;
  if (const auto at = text.find('\n' + next); end > 0 && at != std::string::npos) end = at + 1;
  if (end < text.size()) write_file_atomic(path, text.substr(0, end));
}

}  // namespace satformer
