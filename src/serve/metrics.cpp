#include "serve/metrics.h"

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/process_memory.h"

namespace satformer::serve {
namespace {

class Page {
 public:
  void add(const char* name, const char* type, const char* help, double value) {
    header(name, type, help);
    line(name, value);
  }
  void header(const char* name, const char* type, const char* help) {
    text += concat("# HELP satformer_", name, " ", help, "\n# TYPE satformer_", name, " ", type, "\n");
  }
  void line(const std::string& name, double value) {
    char number[40];
    std::snprintf(number, sizeof number, "%.10g", value);
    text += "satformer_" + name + " " + number + "\n";
  }
  std::string text;
};

double open_descriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error))
    ++count;
  return count;
}

}  // namespace

void Metrics::observe(Histogram& histogram, double seconds) {
  const std::lock_guard lock(mutex_);
  std::size_t i = 0;
  while (i < bounds.size() && seconds > bounds[i]) ++i;
  ++histogram.counts[i];
  histogram.sum += seconds;
}

std::string Metrics::text(const EngineCounts* engine, const HttpCounts* http) const {
  Page page;
  page.add("ready", "gauge", "1 when the model is loaded", engine ? 1 : 0);
  if (engine) {
    const auto number = [](std::int64_t value) { return static_cast<double>(value); };
    page.add("sequences_running", "gauge", "sequences in the batch", number(engine->running));
    page.add("sequences_waiting", "gauge", "sequences in the queue", number(engine->waiting));
    page.add("sequences_finished_total", "counter", "sequences that ended by themselves", number(engine->finished));
    page.add("sequences_cancelled_total", "counter", "sequences whose client left", number(engine->cancelled));
    page.add("sequences_failed_total", "counter", "sequences that ended in an error", number(engine->failed));
    page.add("prompt_tokens_total", "counter", "tokens of prompts", number(engine->prompt_tokens));
    page.add("prompt_tokens_reused_total", "counter", "those found in the cache", number(engine->reused_tokens));
    page.add("new_tokens_total", "counter", "tokens generated", number(engine->new_tokens));
    page.add("speculated_tokens_total", "counter", "tokens proposed by speculation", number(engine->proposed_tokens));
    page.add("speculated_tokens_accepted_total", "counter", "those that were the model's own",
             number(engine->accepted_tokens));
    page.add("forward_passes_total", "counter", "passes of the model", number(engine->passes));
    page.add("busy_seconds_total", "counter", "time in which the engine worked", engine->busy_seconds);
    page.add("cache_bytes", "gauge", "memory of the KV cache", number(engine->cache_bytes));
  }
  if (http) {
    page.add("connections", "gauge", "open connections", static_cast<double>(http->connections));
    page.add("connections_accepted_total", "counter", "connections accepted", static_cast<double>(http->accepted));
    page.add("connections_refused_total", "counter", "connections over the limit",
             static_cast<double>(http->refused));
    page.add("timeouts_total", "counter", "heads, bodies and readers that were too slow",
             static_cast<double>(http->timeouts));
    page.add("bad_requests_total", "counter", "requests that were not HTTP or over a limit",
             static_cast<double>(http->bad_requests));
    page.add("clients_gone_total", "counter", "clients that left before their answer ended",
             static_cast<double>(http->clients_gone));
    page.header("responses_total", "counter", "answers by class of status");
    for (int c = 2; c < 6; ++c)
      page.line(concat("responses_total{class=\"", c, "xx\"}"), static_cast<double>(http->responses[c]));
  }
  page.add("resident_memory_bytes", "gauge", "memory of the process", resident_bytes());
  page.add("open_descriptors", "gauge", "open files and sockets", open_descriptors());
  const std::lock_guard lock(mutex_);
  page.add("queue_full_total", "counter", "requests answered 429", static_cast<double>(queue_full_));
  const auto histogram = [&](const std::string& name, const char* help, const Histogram& data) {
    page.header(name.c_str(), "histogram", help);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      sum += data.counts[i];
      page.line(concat(name, "_bucket{le=\"", bounds[i], "\"}"), static_cast<double>(sum));
    }
    sum += data.counts.back();
    page.line(name + "_bucket{le=\"+Inf\"}", static_cast<double>(sum));
    page.line(name + "_sum", data.sum);
    page.line(name + "_count", static_cast<double>(sum));
  };
  histogram("first_token_seconds", "from a request to its first new token", first_token_);
  histogram("request_seconds", "from a generation request to its end", request_);
  return page.text;
}

}  // namespace satformer::serve
