// Gates of a batch whose rows belong to different callers: each row's own edits, and a record where it is asked for.
#pragma once

#include <vector>

#include "infer/engine.h"
#include "probe/gate_editor.h"

namespace satformer {

class RowGates : public LayerObserver {
 public:
  RowGates(std::vector<GateEntry> layout, std::int64_t heads) : layout_(std::move(layout)), heads_(heads) {}
  struct Row {
    GateEditor* editor = nullptr;          // null: the model's own gates
    std::vector<float>* record = nullptr;  // appended to: [tokens][layout][heads]
    std::int64_t tokens = 0;               // of the row in this pass, from the left
    std::size_t start = 0;                 // of the record when the pass began
  };
  // Before each pass. False: no row wants anything, and the pass needs no observer.
  bool begin(std::vector<Row> rows);
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override;

 private:
  std::vector<GateEntry> layout_;
  std::int64_t heads_;
  std::vector<Row> rows_;
};

// The gates of a model, in the order in which a pass meets them.
std::vector<GateEntry> gate_layout_of(const EditSpace& space);
// Error(usage) for edits that a server cannot make: of learned weights, or that need more than the token itself.
Intervention parse_row_intervention(const std::string& spec, const EditSpace& space);

}  // namespace satformer
