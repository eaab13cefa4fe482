#include "train/schedule.h"

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/error.h"

namespace satformer {

DecayStyle decay_style(std::string_view name) {
  if (name == "cosine") return DecayStyle::cosine;
  if (name == "linear") return DecayStyle::linear;
  if (name == "constant") return DecayStyle::constant;
  const std::vector<std::string> names = {"cosine", "linear", "constant"};
  fail(ExitCode::config, "lr_decay_style '", name, "' is not one of: cosine, linear, constant.",
       did_you_mean(name, names));
}

double Schedule::rate(std::int64_t step) const {
  if (step < warmup_steps) {
    return learning_rate * (static_cast<double>(step + 1) / static_cast<double>(warmup_steps));
  }
  if (style == DecayStyle::constant) return learning_rate;
  if (step >= total_steps || total_steps <= warmup_steps) return min_lr;
  const double progress = static_cast<double>(step - warmup_steps) / static_cast<double>(total_steps - warmup_steps);
  const double share =
      style == DecayStyle::cosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress)) : 1.0 - progress;
  return min_lr + share * (learning_rate - min_lr);
}

}  // namespace satformer
