// README.md of an exported model.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/hf/export.h"
#include "cli/export_check.h"

namespace satformer::cli {

struct ModelCard {
  const Model& model;
  HfForm form = HfForm::own;
  std::string tokenizer = {};          // its kind; empty: none
  std::string no_tokenizer_json = {};  // why tokenizer.json was left out
  std::optional<ExportCheck> check = {};

  std::string text() const;
};

}  // namespace satformer::cli
