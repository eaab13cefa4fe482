#include "cli/model_target.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/run_folder.h"
#include "cli/model_options.h"
#include "io/file.h"

namespace satformer::cli {

namespace fs = std::filesystem;

void check_model_target(const std::string& directory, bool overwrite) {
  std::error_code error;
  if (!fs::exists(directory, error)) return;
  if (!fs::is_directory(directory, error)) fail(ExitCode::usage, "'", directory, "' exists and is not a folder");
  if (!fs::is_empty(directory, error) && !overwrite) {
    fail(ExitCode::usage, "the folder '", directory, "' is not empty; --overwrite replaces all that it holds");
  }
}

void write_model_folder(const Model& model, const Tokenizer* tokenizer, const std::string& directory) {
  const fs::path target = fs::absolute(directory + "/").lexically_normal().parent_path();
  make_directories(target.parent_path().string());
  RunFolder(target.parent_path().string()).replace_folder(target.string(), [&](const std::string& temporary) {
    save_model(model, temporary);
    if (tokenizer) tokenizer->save(temporary);
  });
}

at::ScalarType stored_type(const std::string& directory) {
  const Json config = read_json_file(directory + "/config.json", ExitCode::checkpoint);
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) return config[key] == "bfloat16" ? at::kBFloat16 : at::kFloat;
  }
  return at::kFloat;
}

std::unique_ptr<Tokenizer> tokenizer_beside(const LoadedModel& loaded, const std::string& spec) {
  if (spec.empty() && !has_tokenizer(loaded.directory)) return nullptr;
  ModelOptions options;
  options.tokenizer = spec;
  return options.load_tokenizer_for(loaded);
}

}  // namespace satformer::cli
