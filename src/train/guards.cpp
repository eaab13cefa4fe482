#include "train/guards.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace satformer {
namespace {

constexpr double normal_deviation = 1.4826;  // of a normal distribution, over the median distance from its median
constexpr double least_deviation = 0.01;     // of the median's size

double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double bound_of(const std::deque<double>& values, double threshold) {
  const MedianSpread spread = median_spread({values.begin(), values.end()});
  return spread.median + threshold * std::max(spread.deviation, least_deviation * std::abs(spread.median));
}

}  // namespace

void SpikeOptions::visit(FieldVisitor& v) {
  v.field(
      "action", &action,
      "what a step does whose loss or gradient norm is far above those before it: \"skip\" its update, \"rewind\" "
      "to the last checkpoint and leave out the windows since; \"none\": train on it",
      {.choices = {"none", "skip", "rewind"}});
  v.field("threshold", &threshold, "how far: deviations (1.4826 median distances, at least 1 %) above the median",
          {.min = 0, .open_min = true});
  v.field("window", &window, "steps that median and deviation are taken of; before as many there are no spikes",
          {.min = 4, .max = 100000});
  v.field("limit", &limit, "spikes acted on without as many good steps in between; one more ends the run",
          {.min = 1, .max = 100000});
}

MedianSpread median_spread(std::vector<double> values) {
  const double median = median_of(values);
  for (double& value : values) value = std::abs(value - median);
  return {median, normal_deviation * median_of(values)};
}

std::optional<SpikeGuard::Bounds> SpikeGuard::bounds() const {
  if (!on() || static_cast<std::int64_t>(losses_.size()) < options_.window) return {};
  return Bounds{bound_of(losses_, options_.threshold), bound_of(norms_, options_.threshold)};
}

bool SpikeGuard::look(double loss, double norm) {
  if (!on()) return false;
  if (const auto bound = bounds(); bound && (loss > bound->loss || norm > bound->norm)) return true;
  losses_.push_back(loss);
  norms_.push_back(norm);
  while (static_cast<std::int64_t>(losses_.size()) > options_.window) {
    losses_.pop_front();
    norms_.pop_front();
  }
  if (++calm_steps_ >= options_.window) spikes_ = 0;
  return false;
}

void SpikeGuard::count(std::int64_t step, double loss, double norm) {
  const auto bound = bounds();
  calm_steps_ = 0;
  if (++spikes_ <= options_.limit) return;
  fail(ExitCode::non_finite, "step ", step, ": loss ", loss, " or gradient norm ", norm, " is a spike (bounds ",
       bound ? bound->loss : 0, " and ", bound ? bound->norm : 0, "), number ", spikes_, " without ", options_.window,
       " good steps in between; training.spike.limit is ", options_.limit,
       ". A lower learning_rate may help; the last checkpoint is as it was");
}

std::string SpikeGuard::state() const {
  if (losses_.empty() && spikes_ == 0) return {};
  const Json json = {{"losses", losses_}, {"norms", norms_}, {"spikes", spikes_}, {"calm_steps", calm_steps_}};
  return json.dump();
}

void SpikeGuard::restore(const std::string& state, bool keep_count) {
  losses_.clear();
  norms_.clear();
  if (!keep_count) spikes_ = calm_steps_ = 0;
  if (state.empty()) return;
  try {
    const Json json = Json::parse(state);
    json.at("losses").get_to(losses_);
    json.at("norms").get_to(norms_);
    if (losses_.size() != norms_.size()) fail(ExitCode::checkpoint, "the state of the spike guard is damaged");
    if (keep_count) return;
    json.at("spikes").get_to(spikes_);
    json.at("calm_steps").get_to(calm_steps_);
  } catch (const Json::exception&) {
    fail(ExitCode::checkpoint, "the state of the spike guard is damaged");
  }
}

double parse_duration(std::string_view text, std::string_view option) {
  const auto refuse = [&]() {
    fail(ExitCode::usage, option, " '", text,
         "' is no duration: expected seconds, 90s, 15m, 2h, 1d, MM:SS, HH:MM:SS or D-HH:MM:SS");
  };
  const auto number = [&](std::string_view digits) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size() || !(value >= 0)) refuse();
    return value;
  };
  double seconds = 0;
  if (text.find(':') == std::string_view::npos) {
    const auto unit = std::string_view("smhd").find(text.empty() ? 'x' : text.back());
    constexpr double sizes[] = {1, 60, 3600, 86400};
    if (unit == std::string_view::npos) {
      seconds = number(text);
    } else {
      seconds = sizes[unit] * number(text.substr(0, text.size() - 1));
    }
  } else {
    std::string_view rest = text;
    double days = 0;
    const auto dash = rest.find('-');
    if (dash != std::string_view::npos) {
      days = number(rest.substr(0, dash));
      rest.remove_prefix(dash + 1);
    }
    int parts = 0;
    for (bool last = false; !last; ++parts) {
      const auto colon = rest.find(':');
      last = colon == std::string_view::npos;
      seconds = 60 * seconds + number(rest.substr(0, colon));
      if (!last) rest.remove_prefix(colon + 1);
    }
    if (parts > 3 || (dash != std::string_view::npos && parts != 3)) refuse();
    seconds += 86400 * days;
  }
  if (!(seconds > 0) || seconds > 1e9) refuse();
  return seconds;
}

bool TimeLimit::over(Clock::time_point now) const {
  if (!end_) return false;
  const double reserve = 1 + 1.5 * (save_.value_or(first_save_) + pass_);
  return std::chrono::duration<double>(*end_ - now).count() < reserve;
}

}  // namespace satformer
