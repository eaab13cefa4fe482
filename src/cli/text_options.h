// The options of commands that ask a model in text.
#pragma once

#include <memory>

#include "cli/edit_options.h"
#include "cli/model_options.h"
#include "infer/text_model.h"

namespace satformer::cli {

struct TextOptions {
  ModelOptions model;
  EditOptions edit;
  std::int64_t context = 0, batch_size = 16;
  bool add_bos = false;
  std::string prefix_token = "auto";

  void add_to(Options& options);
  void check() const;  // Error(usage) for values out of range
};

// The model and tokenizer of `options`, and both as a text model.
struct LoadedText {
  LoadedModel loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<TextModel> text;
  std::unique_ptr<ActiveEdits> edits = nullptr;  // null: none
};
LoadedText load_text_model(const TextOptions& options);

}  // namespace satformer::cli
