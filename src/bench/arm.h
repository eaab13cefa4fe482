// Arms of a comparison: each lives in a process of its own, so that peak memory is its own and a crash is its own.
#pragma once

#include <memory>
#include <string>

#include "bench/workload.h"

namespace satformer {

struct ArmMeasurement {
  double seconds = 0, tokens_per_second = 0;
  double peak_bytes = 0;   // largest resident set of the arm's process so far, libraries included
  double saved_bytes = 0;  // that a forward pass leaves for the backward pass; 0: not known
};

class Arm {
 public:
  virtual ~Arm() = default;
  virtual const std::string& name() const = 0;
  // Runs for at least `least` seconds. Error(system) if the process ends or answers something else.
  virtual ArmMeasurement measure(double least) = 0;
  virtual int pid() const { return 0; }  // of a process that stays alive between measurements; 0: none
};

// Starts this program again as `satformer bench --worker SPEC`, which waits for requests on its standard input.
std::unique_ptr<Arm> start_worker(const std::string& name, const WorkloadSpec& spec);
// A shell command, run for each measurement, whose last line of output is a JSON object with "tok_s" (tokens a
// second) and, if it knows it, "rss_mib" (peak memory in MiB).
std::unique_ptr<Arm> command_arm(const std::string& name, const std::string& command);

// The other side of start_worker(): answers requests until standard input ends.
int serve_worker(const std::string& spec_json);

}  // namespace satformer
