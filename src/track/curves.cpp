#include "track/curves.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "io/file.h"

namespace satformer {

void Curves::add(std::int64_t step, const Json& values) {
  const auto told = values.find("progress/seconds");
  if (told != values.end() && told->is_number()) seconds_ = told->get<double>();
  const auto at = static_cast<double>(step);
  for (const auto& [key, value] : values.items()) {
    if (!value.is_number()) continue;
    Curve& curve = curves_[key];
    if (!curve.steps.empty() && curve.steps.back() == at) {
      curve.values.back() = value.get<double>();
      continue;
    }
    curve.steps.push_back(at);
    curve.tokens.push_back(at * static_cast<double>(tokens_per_step_));
    curve.seconds.push_back(seconds_);
    curve.values.push_back(value.get<double>());
  }
}

const Curve* Curves::find(const std::string& metric) const {
  const auto it = curves_.find(metric);
  return it == curves_.end() ? nullptr : &it->second;
}

double Curves::last(const std::string& metric) const {
  const Curve* curve = find(metric);
  return curve ? curve->values.back() : std::numeric_limits<double>::quiet_NaN();
}

Curves read_curves(const std::string& metrics_path, std::int64_t tokens_per_step) {
  Curves curves(tokens_per_step);
  std::istringstream lines(read_file(metrics_path));
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty() || lines.eof()) continue;  // a line without its end is being written, or was cut by a kill
    const std::string where = concat(metrics_path, ", line ", number);
    const Json json = parse_json(line, where, ExitCode::data);
    const auto step = json.is_object() ? json.find("progress/step") : json.end();
    if (!json.is_object() || step == json.end() || !step->is_number_integer()) {
      fail(ExitCode::data, where, ": without progress/step");
    }
    curves.add(step->get<std::int64_t>(), json);
  }
  return curves;
}

}  // namespace satformer
