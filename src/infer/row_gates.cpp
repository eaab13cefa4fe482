#include "infer/row_gates.h"

#include <algorithm>

#include "base/error.h"

namespace satformer {

bool RowGates::begin(std::vector<Row> rows) {
  rows_ = std::move(rows);
  bool any = false;
  for (Row& row : rows_) {
    any = any || row.editor || row.record;
    if (!row.record) continue;
    row.start = row.record->size();
    row.record->resize(row.start + static_cast<std::size_t>(row.tokens * heads_) * layout_.size(), 0.0f);
  }
  return any;
}

at::Tensor RowGates::source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) {
  const auto entry = std::find_if(layout_.begin(), layout_.end(),
                                  [&](const GateEntry& e) { return e.layer == layer && e.source == source; });
  at::Tensor result = alpha_BTH;
  for (std::size_t b = 0; b < rows_.size(); ++b) {
    const Row& row = rows_[b];
    if (row.tokens == 0 || (!row.editor && !row.record)) continue;
    at::Tensor own = alpha_BTH.narrow(0, static_cast<std::int64_t>(b), 1);
    if (row.editor) {
      const at::Tensor edited = row.editor->source_gate(layer, source, own);
      if (!edited.is_same(own)) {
        if (result.is_same(alpha_BTH)) result = alpha_BTH.clone();
        result.narrow(0, static_cast<std::int64_t>(b), 1).copy_(edited);
        own = edited;
      }
    }
    if (!row.record || entry == layout_.end()) continue;
    const at::Tensor host = own.narrow(1, 0, row.tokens).to(at::kCPU, at::kFloat).contiguous();
    const float* from = host.const_data_ptr<float>();
    const auto place = static_cast<std::size_t>(entry - layout_.begin());
    const auto heads = static_cast<std::size_t>(heads_);
    for (std::size_t t = 0; t < static_cast<std::size_t>(row.tokens); ++t) {
      std::copy_n(
          from + t * heads, heads,
          row.record->begin() + static_cast<std::ptrdiff_t>(row.start + (t * layout_.size() + place) * heads));
    }
  }
  return result;
}

std::vector<GateEntry> gate_layout_of(const EditSpace& space) {
  std::vector<GateEntry> layout;
  for (const std::int64_t layer : space.gate_layers) {
    for (const std::int64_t source : space.sources) {
      if (source < layer) layout.push_back({layer, source});
    }
  }
  return layout;
}

Intervention parse_row_intervention(const std::string& spec, const EditSpace& space) {
  Intervention intervention = parse_intervention(spec, space);
  for (const Edit& edit : intervention.edits) {
    switch (edit.operation) {
      case EditOperation::zero:
      case EditOperation::scale:
      case EditOperation::clamp:
      case EditOperation::swap:
        break;
      default:
        fail(ExitCode::usage, "intervention '", spec,
             "': while generating, zero, scale, clamp and swap are possible; satformer analyze has the others");
    }
    if (!edit.kinds.empty()) {
      fail(ExitCode::usage, "intervention '", spec, "': kinds of tokens are known to satformer analyze alone");
    }
  }
  return intervention;
}

}  // namespace satformer
