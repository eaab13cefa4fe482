// Changes to a model's value path or residual routing, as a text:
//   SPEC = EDIT [+ EDIT ...]                                       from left to right
//   EDIT = OPERATION [=ARGUMENT] [@KEY=LIST[,KEY=LIST ...]]        e.g. zero@layers=3-5,heads=0
//   LIST = numbers, ranges of numbers or names, joined by "/"      e.g. 1/3-5
// Of SATFormer's gates, in the layers, heads (KV heads), kinds (of tokens) and sources named, everywhere without
// them:
//   zero            0
//   mean[=OVER]     their mean over the tokens: OVER head (each layer's and head's own, the default), kind (of the
//                   tokens of the same kind) or overall (one number)
//   shuffle[=SEED]  those of the tokens of a row, in another order (one for all heads of a layer)
//   scale=X         X times the gate        clamp=LOW:HIGH  into that range        swap=H1:H2  the two heads
//   exchanged
// Of learned weights, in the layers named:
//   lambda1-zero, lambda1-mean   ResFormer's weight of layer 0's values: 0, or the mean over the layers
//   dense-own                    DenseFormer's averages: the block's own output alone
//   mudd-static, hyper-static    MUDDFormer's and Hyper-Connections' mixes without the part that depends on the token
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/model.h"

namespace satformer {

enum class EditOperation {
  zero,
  mean,
  shuffle,
  scale,
  clamp,
  swap,
  lambda1_zero,
  lambda1_mean,
  dense_own,
  mudd_static,
  hyper_static
};
bool edits_gates(EditOperation operation);  // the others edit learned weights

struct Edit {
  EditOperation operation = EditOperation::zero;
  enum class Over { head, kind, overall } over = Over::head;
  std::uint64_t seed = 1;
  double factor = 1, low = 0, high = 0;
  std::int64_t first_head = 0, second_head = 0;
  std::vector<std::int64_t> layers, heads, kinds, sources;  // ascending; empty: all
};

struct Intervention {
  std::string spec;  // as it was given
  std::vector<Edit> edits;
  bool needs_means() const;
  bool needs_kinds() const;
  bool edits_weights() const;
};

// What specs of a model may name.
struct EditSpace {
  std::int64_t num_layers = 0, heads = 0;
  std::vector<std::int64_t> gate_layers, sources;  // empty without gates
  std::vector<std::int64_t> lambda_layers, dense_layers, mudd_layers, hyper_layers;
  std::vector<std::string> kinds;  // of tokens, by number
  bool empty() const;              // nothing can be edited
  // Those that apply to the model, as in specs.
  std::vector<std::string> operations() const;
};
// The layers of a model that an operation can act on.
const std::vector<std::int64_t>& editable_layers(const EditSpace& space, EditOperation operation);
EditSpace edit_space(const Model& model, std::vector<std::string> kinds);

// Error(usage) for what is malformed or names what the model has not, with the nearest name or the range.
Intervention parse_intervention(const std::string& spec, const EditSpace& space);

}  // namespace satformer
