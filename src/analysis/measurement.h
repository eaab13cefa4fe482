// What one pass over the data tells of every token: losses, kinds and gates.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analysis/passes.h"
#include "analysis/token_kinds.h"

namespace satformer {

// Gates of one layer on one source layer, for every token, on the CPU.
struct GateTrack {
  std::int64_t layer = 0, source = 0;
  at::Tensor gates_WTH;      // fp32
  std::string name() const;  // "layer 3", or "layer 3 on 1" where a model has several sources
  bool pool = false;         // several sources
};

struct Measurement {
  at::Tensor tokens_WT1;  // int64
  at::Tensor losses_WT;   // fp32: of predicting the token after each
  at::Tensor kinds_WT;    // uint8
  std::vector<std::string> kind_names;
  std::vector<GateTrack> gates;  // by layer, then source; empty without gates

  std::int64_t windows() const { return losses_WT.size(0); }
  std::int64_t length() const { return losses_WT.size(1); }
  std::int64_t tokens() const { return losses_WT.numel(); }
  std::int64_t heads() const { return gates.empty() ? 0 : gates.front().gates_WTH.size(2); }
};

// Bytes that the gates of a window take in a measurement.
std::int64_t gate_bytes(const ModelConfig& config, std::int64_t length);

// `options.observer` and `before` are the measurement's own. `first_window`: number of the first row for `kinds`, -1:
// texts.
Measurement measure(Model& model, const at::Tensor& tokens_WT1, TokenKinds& kinds, PassOptions options,
                    std::int64_t first_window = 0);

// Keeps the gates of the tokens it sees, in the order of the passes.
class GateRecorder : public LayerObserver {
 public:
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override;
  std::vector<GateTrack> tracks() const;

 private:
  struct Parts {
    std::int64_t layer, source;
    std::vector<at::Tensor> gates;
  };
  std::vector<Parts> parts_;
};

// One head's gates as a row of numbers, [W T].
std::vector<float> head_gates(const GateTrack& track, std::int64_t head);
// The mean over the heads of each token's gates, [W T].
std::vector<float> layer_gates(const GateTrack& track);

}  // namespace satformer
