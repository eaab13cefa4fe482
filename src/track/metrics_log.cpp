#include "track/metrics_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace satformer {
namespace {

constexpr const char* step_key = "progress/step";

std::int64_t step_of(const Json& line) {
  const auto it = line.is_object() ? line.find(step_key) : line.end();
  return line.is_object() && it != line.end() && it->is_number_integer() ? it->get<std::int64_t>() : -1;
}

// Text that is no UTF-8, as an untrained model makes, is written with replacement characters.
std::string line_text(const Json& line) { return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// Whole lines up to `step`.
std::vector<Json> read_lines(const std::string& path, std::int64_t step) {
  std::vector<Json> lines;
  if (!std::filesystem::exists(path)) return lines;
  const std::string text = read_file(path);
  for (std::size_t start = 0; start < text.size();) {
    const auto end = text.find('\n', start);
    if (end == std::string::npos) break;
    Json line = Json::parse(text.substr(start, end - start), nullptr, false);
    const std::int64_t line_step = line.is_discarded() ? -1 : step_of(line);
    if (line_step >= 0 && line_step <= step) lines.push_back(std::move(line));
    start = end + 1;
  }
  return lines;
}

void write_lines(const std::string& path, const std::vector<Json>& lines) {
  std::string text;
  for (const Json& line : lines) text += line_text(line);
  write_file_atomic(path, text);
}

}  // namespace

MetricsLog::MetricsLog(std::string path, std::int64_t step) : path_(std::move(path)) {
  const std::vector<Json> lines = step > 0 ? read_lines(path_, step) : std::vector<Json>{};
  write_lines(path_, lines);
  if (!lines.empty()) last_step_ = step_of(lines.back());
  file_ = std::make_unique<AppendFile>(path_);
}

void MetricsLog::add(std::int64_t step, const Json& values) {
  if (step == last_step_) {  // a validation that came after the step's line was written
    std::vector<Json> lines = read_lines(path_, step);
    if (!lines.empty()) lines.back().update(values);
    write_lines(path_, lines);
    file_ = std::make_unique<AppendFile>(path_);
    return;
  }
  Json line = {{step_key, step}};
  line.update(values);
  file_->append(line_text(line));
  last_step_ = step;
}

void MetricsLog::sync() { sync_file(path_); }

}  // namespace satformer
