// Metrics of a run over training, from the lines of metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace satformer {

// One metric; the vectors have one entry for each time it was logged.
struct Curve {
  std::vector<double> steps, tokens, seconds, values;  // seconds of training, without validations
};

class Curves {
 public:
  explicit Curves(std::int64_t tokens_per_step) : tokens_per_step_(tokens_per_step) {}
  // A line of metrics.jsonl; values that are no numbers are left out. A value of the last step replaces it.
  void add(std::int64_t step, const Json& values);
  const std::map<std::string, Curve>& all() const { return curves_; }
  const Curve* find(const std::string& metric) const;  // null if it was never logged
  double last(const std::string& metric) const;        // NaN if it was never logged

 private:
  std::int64_t tokens_per_step_;
  double seconds_ = 0;
  std::map<std::string, Curve> curves_;
};

// Error(data) for lines that are not of a run; a last line without its end is left out.
Curves read_curves(const std::string& metrics_path, std::int64_t tokens_per_step);

}  // namespace satformer
