// What /metrics tells, in Prometheus' text format.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "infer/engine.h"
#include "serve/http_server.h"

namespace satformer::serve {

class Metrics {
 public:
  void first_token(double seconds) { observe(first_token_, seconds); }
  void request_seconds(double seconds) { observe(request_, seconds); }
  void queue_full() {
    const std::lock_guard lock(mutex_);
    ++queue_full_;
  }
  // `engine`: null while the model is being loaded.
  std::string text(const EngineCounts* engine, const HttpCounts* http) const;

 private:
  static constexpr std::array<double, 11> bounds = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60};
  struct Histogram {
    std::array<std::int64_t, bounds.size() + 1> counts = {};
    double sum = 0;
  };
  void observe(Histogram& histogram, double seconds);

  mutable std::mutex mutex_;
  Histogram first_token_, request_;
  std::int64_t queue_full_ = 0;
};

}  // namespace satformer::serve
