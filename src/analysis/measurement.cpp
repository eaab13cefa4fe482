#include "analysis/measurement.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "base/error.h"

namespace satformer {
namespace {

std::vector<float> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kFloat).contiguous();
  const float* data = flat.const_data_ptr<float>();
  return {data, data + flat.numel()};
}

}  // namespace

std::string GateTrack::name() const {
  return pool ? concat("layer ", layer, " on ", source) : concat("layer ", layer);
}

std::int64_t gate_bytes(const ModelConfig& config, std::int64_t length) {
  if (config.effective_value_path() != "satformer") return 0;
  const auto sources = static_cast<std::int64_t>(config.value_sources.size());
  return config.active_value_layers() * sources * config.kv_heads() * length *
         static_cast<std::int64_t>(sizeof(float));
}

at::Tensor GateRecorder::source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) {
  at::NoGradGuard no_grad;
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Parts& p) { return p.layer == layer && p.source == source; });
  Parts& parts = found != parts_.end() ? *found : parts_.emplace_back(Parts{layer, source, {}});
  parts.gates.push_back(alpha_BTH.detach().to(at::kCPU, at::kFloat).contiguous());
  return alpha_BTH;
}

std::vector<GateTrack> GateRecorder::tracks() const {
  std::vector<GateTrack> tracks;
  bool pool = false;
  for (const Parts& parts : parts_) {
    tracks.push_back({parts.layer, parts.source, at::cat(parts.gates, 0)});
    pool = pool || parts.source != parts_.front().source;
  }
  for (GateTrack& track : tracks) track.pool = pool;
  return tracks;
}

Measurement measure(Model& model, const at::Tensor& tokens_WT1, TokenKinds& kinds, PassOptions options,
                    std::int64_t first_window) {
  Measurement result;
  const std::int64_t W = tokens_WT1.size(0), T = tokens_WT1.size(1) - 1;
  result.tokens_WT1 = tokens_WT1.contiguous();
  result.kind_names = kinds.names();
  result.kinds_WT = at::empty({W, T}, at::kByte);
  for (std::int64_t w = 0; w < W; ++w) {
    const std::int64_t* row = result.tokens_WT1.const_data_ptr<std::int64_t>() + w * (T + 1);
    const std::vector<std::uint8_t> of_row =
        kinds.of(first_window < 0 ? -1 : first_window + w, {row, static_cast<std::size_t>(T)});
    std::copy(of_row.begin(), of_row.end(), result.kinds_WT.mutable_data_ptr<std::uint8_t>() + w * T);
  }
  GateRecorder recorder;
  options.observer = &recorder;
  options.before = nullptr;
  result.losses_WT = row_losses(model, result.tokens_WT1, options);
  result.gates = recorder.tracks();
  return result;
}

std::vector<float> head_gates(const GateTrack& track, std::int64_t head) {
  return numbers(track.gates_WTH.select(2, head).reshape({-1}));
}
std::vector<float> layer_gates(const GateTrack& track) { return numbers(track.gates_WTH.mean(2).reshape({-1})); }

}  // namespace satformer
