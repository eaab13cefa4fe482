// One thing to be timed: training steps, prefill or decoding of one architecture on random tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/config.h"
#include "nn/model.h"

namespace satformer {

struct WorkloadSpec {
  std::string architecture = "satformer";
  std::string overrides = "{}";  // JSON object: model.config_overrides
  std::string phase = "train";   // train | prefill | decode
  std::int64_t batch_size = 4, context = 512;
  std::string dtype = "float32", device = "cpu";
  std::string weights = "full";  // full | int8 | int4: prefill and decode
  int threads = 0;
  bool recompute = false;  // train: gradient checkpointing

  void visit(FieldVisitor& visitor);
  // Error(config) for an unknown architecture, phase, dtype or model key.
  void validate() const;
};

// The model of a spec with room for its phase's positions; on the meta device shapes only.
std::unique_ptr<Model> make_workload_model(const WorkloadSpec& spec, at::Device device);
// FLOPs that the model of the spec needs for a token in this phase (training_flops, a third of them without
// backward).
double workload_flops_per_token(const WorkloadSpec& spec, const Model& model);

// Bytes that decoding reads for one token of each row: every matrix once in the type of its weights, shared by the
// rows of the batch, and the row's keys and values.
double workload_bytes_per_token(const WorkloadSpec& spec, const Model& model);

class Workload {
 public:
  explicit Workload(const WorkloadSpec& spec);
  ~Workload();
  struct Timing {
    double seconds = 0;
    std::int64_t tokens = 0, repetitions = 0;
    double loss = 0;               // train: of the last step
    std::int64_t saved_bytes = 0;  // train: see saved_bytes.h
  };
  // Repeats until `least` seconds have passed, at least once. Preparation (the cache of decoding) is not timed.
  Timing run(double least);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace satformer
