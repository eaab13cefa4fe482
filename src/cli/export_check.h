// The proof of an export: what the written folder computes against what the model computes.
#pragma once

#include <optional>
#include <string>

#include "io/tokenizer.h"
#include "nn/model.h"

namespace satformer::cli {

struct ExportCheck {
  double size = 1;    // largest |logit|, at least 1: rounding grows with it
  double reader = 0;  // max |delta logit| of the folder read back here
  // Of the folder loaded by transformers, where that was done.
  struct Transformers {
    std::string version, class_name;
    double logits = 0, padded = 0;  // max |delta logit| of whole rows and of left-padded ones
    double generate = 0;            // where greedy continuations part: how far the other token is from the best
    std::int64_t texts = 0;         // texts whose ids were compared
    std::string problem;            // anything else that differs
  };
  std::optional<Transformers> transformers;
  std::string not_done;                 // why transformers was not asked
  bool passes(double tolerance) const;  // differences up to tolerance * size
};

// Compares `model` with the folder `directory` that was written from it. `python`: the interpreter to ask; with
// `must_ask` it is an error if it cannot.
ExportCheck check_export(Model& model, const Tokenizer* tokenizer, const std::string& directory,
                         const std::string& python, bool must_ask);

void print_check(const ExportCheck& check);

// Of two models on the same random ids.
struct LogitDifference {
  double largest = 0, size = 0;  // max |a - b|, max |a|
};
LogitDifference compare_logits(Model& a, Model& b);

}  // namespace satformer::cli
