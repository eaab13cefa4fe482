// The gate statistics that training logged (logging.gate_interval) in a run's metrics.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace satformer {

struct GateHistory {
  struct Layer {
    std::vector<double> mean, zero_share, saturated_share, dead_heads;  // by step
  };
  std::vector<std::int64_t> steps;
  std::map<std::string, Layer> layers;  // "layer_3", "layer_3_source_1", by layer's and source's number
  std::vector<std::string> order;       // of the layers
};

// Error(system) without the file; Error(data) naming the file if no line has gate statistics, or a line of a step
// lacks what the others have. Lines that are no JSON objects, as a killed run may leave one, are passed over.
GateHistory read_gate_history(const std::string& metrics_path);

}  // namespace satformer
