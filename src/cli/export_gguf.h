// satformer export --to gguf.
#pragma once

#include <string>

#include "cli/model_options.h"

namespace satformer::cli {

struct GgufExport {
  std::string target;  // FILE.gguf, or a folder, where it is called model.gguf
  ModelOptions model;
  std::string dtype = "stored", python;
  double tolerance = 2e-5;
  bool overwrite = false, check = true, tokenizer = true;
};
// Writes the file, proves it and gives it its name. Prints what it did.
void export_gguf(const GgufExport& options);

}  // namespace satformer::cli
