#include "probe/gate_editor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"

namespace satformer {
namespace {

bool named(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() || std::binary_search(list.begin(), list.end(), value);
}

}  // namespace

GateEditor::GateEditor(const Intervention& intervention, const GateMeans* means) : means_(means) {
  for (const Edit& edit : intervention.edits) {
    if (edits_gates(edit.operation)) edits_.push_back(edit);
  }
  if (intervention.needs_means() && !means) {
    fail(ExitCode::internal, "the intervention '", intervention.spec, "' needs measured means");
  }
}

void GateEditor::begin(const at::Tensor& kinds_BT, std::int64_t first_row) {
  kinds_BT_ = kinds_BT.defined() ? kinds_BT.cpu() : kinds_BT;
  first_row_ = first_row;
}

at::Tensor GateEditor::means_of(const Edit& edit, std::int64_t layer, std::int64_t source,
                                const at::Tensor& alpha_BTH) const {
  if (edit.over == Edit::Over::overall) return at::full_like(alpha_BTH, means_->overall());
  at::Tensor mean = edit.over == Edit::Over::head
                        ? means_->of_heads(layer, source)
                        : means_->of_kinds(layer, source)
                              .index_select(0, kinds_BT_.flatten().to(at::kLong))
                              .view({kinds_BT_.size(0), kinds_BT_.size(1), alpha_BTH.size(2)});
  return mean.to(alpha_BTH.device(), alpha_BTH.scalar_type()).expand(alpha_BTH.sizes()).contiguous();
}

// Within each row, among the tokens of the kinds named.
at::Tensor GateEditor::shuffled(const Edit& edit, std::int64_t layer, const at::Tensor& alpha_BTH) const {
  const std::int64_t B = alpha_BTH.size(0), T = alpha_BTH.size(1);
  const at::Tensor order_BT = at::arange(T, at::kLong).unsqueeze(0).repeat({B, 1});
  for (std::int64_t b = 0; b < B; ++b) {
    std::vector<std::int64_t> places;
    for (std::int64_t t = 0; t < T; ++t) {
      if (edit.kinds.empty() || named(edit.kinds, kinds_BT_[b][t].item<std::int64_t>())) places.push_back(t);
    }
    std::vector<std::int64_t> from = places;
    const Philox random(edit.seed, hash_name(concat("shuffle/", layer, "/", first_row_ + b)));
    for (std::size_t i = from.size(); i > 1; --i) {
      std::swap(from[i - 1], from[random.bits(i) % i]);
    }
    std::int64_t* order = order_BT.mutable_data_ptr<std::int64_t>() + b * T;
    for (std::size_t i = 0; i < places.size(); ++i) order[places[i]] = from[i];
  }
  return alpha_BTH.gather(1, order_BT.to(alpha_BTH.device()).unsqueeze(-1).expand(alpha_BTH.sizes()));
}

at::Tensor GateEditor::apply(const Edit& edit, std::int64_t layer, std::int64_t source,
                             const at::Tensor& alpha_BTH) const {
  at::Tensor edited;
  switch (edit.operation) {
    case EditOperation::zero:
      edited = at::zeros_like(alpha_BTH);
      break;
    case EditOperation::mean:
      edited = means_of(edit, layer, source, alpha_BTH);
      break;
    case EditOperation::shuffle:
      edited = shuffled(edit, layer, alpha_BTH);
      break;
    case EditOperation::scale:
      edited = alpha_BTH * edit.factor;
      break;
    case EditOperation::clamp:
      edited = alpha_BTH.clamp(edit.low, edit.high);
      break;
    case EditOperation::swap: {
      at::Tensor heads = at::arange(alpha_BTH.size(2), at::kLong);
      heads.mutable_data_ptr<std::int64_t>()[edit.first_head] = edit.second_head;
      heads.mutable_data_ptr<std::int64_t>()[edit.second_head] = edit.first_head;
      edited = alpha_BTH.index_select(2, heads.to(alpha_BTH.device()));
      break;
    }
    default:
      fail(ExitCode::internal, "an edit of learned weights among those of gates");
  }
  at::Tensor where;
  if (!edit.kinds.empty()) {
    where = at::isin(kinds_BT_.to(at::kLong), at::tensor(edit.kinds, at::kLong)).unsqueeze(-1);
  }
  if (!edit.heads.empty()) {
    const at::Tensor heads = at::isin(at::arange(alpha_BTH.size(2), at::kLong), at::tensor(edit.heads, at::kLong));
    where = where.defined() ? where.logical_and(heads) : heads;
  }
  return where.defined() ? at::where(where.to(alpha_BTH.device()), edited, alpha_BTH) : edited;
}

at::Tensor GateEditor::source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) {
  at::Tensor alpha = alpha_BTH;
  for (const Edit& edit : edits_) {
    if (!named(edit.layers, layer) || !named(edit.sources, source)) continue;
    if (!edit.kinds.empty() || edit.over == Edit::Over::kind) {
      if (!kinds_BT_.defined() || kinds_BT_.size(0) != alpha.size(0) || kinds_BT_.size(1) != alpha.size(1)) {
        fail(ExitCode::internal, "an edit of gates needs the kind of each token of the pass");
      }
    }
    alpha = apply(edit, layer, source, alpha);
  }
  return alpha;
}

}  // namespace satformer
