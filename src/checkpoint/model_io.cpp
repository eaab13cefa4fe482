#include "checkpoint/model_io.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/file_hashes.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/tensor_io.h"
#include "checkpoint/weight_file.h"
#include "io/file.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

const char* const model_file = "model.safetensors";
const char* const torch_model_file = "pytorch_model.bin";
const char* const config_file = "config.json";

}  // namespace

Json model_config_json(const Model& model) {
  const Architecture& architecture = architecture_by_name(model.architecture());
  ModelConfig config = model.config();
  Json json = Json::object();
  json["architectures"] = {architecture.class_name};
  json["model_type"] = architecture.model_type;
  const Json fields = ConfigBinding(config).to_json();
  json.update(fields);
  const auto& parameters = model.parameters().list();
  const bool bf16 = !parameters.empty() && parameters[0].value.scalar_type() == at::kBFloat16;
  json["dtype"] = json["torch_dtype"] = bf16 ? "bfloat16" : "float32";
  return json;
}

std::string save_model(const Model& model, const std::string& directory) {
  std::vector<at::Tensor> host;
  std::vector<TensorView> views;
  for (const Parameter& p : model.parameters().list()) {
    host.push_back(p.value.detach().cpu().contiguous());
    views.push_back(view_of_tensor(p.name, host.back()));
  }
  std::string hash = write_safetensors(directory + "/" + model_file, views);
  write_file_atomic(directory + "/" + config_file, model_config_json(model).dump(2) + "\n");
  return hash;
}

void load_weights(Model& model, const std::string& path, const TensorNames& tensor_names) {
  WeightFile file(path);
  at::NoGradGuard no_grad;
  std::set<std::string> used;
  for (Parameter& p : model.parameters().list()) {
    std::string name = tensor_names.in_file ? tensor_names.in_file(p.name) : p.name;
    if (!file.contains(name) && file.contains("_orig_mod." + name)) name = "_orig_mod." + name;
    if (!file.contains(name)) {
      fail(ExitCode::checkpoint, path, ": tensor '", name, "' of the ", model.architecture(), " model is missing.",
           did_you_mean(name, file.names()));
    }
    const TensorView view = file.read(name);
    const auto check_shape = [&](at::IntArrayRef shape) {
      if (shape == p.value.sizes()) return;
      fail(ExitCode::checkpoint, path, ": tensor '", name, "' has shape ", shape_text(view.shape),
           ", the model expects ", shape_text(p.value.sizes()),
           tensor_names.converted ? concat(" of it for ", p.name) : std::string());
    };
    if (!tensor_names.converted) check_shape(view.shape);
    used.insert(name);
    if (p.value.is_meta() && !tensor_names.converted) continue;
    at::Tensor loaded = tensor_from_view(view);
    if (tensor_names.converted) {
      loaded = tensor_names.converted(p.name, loaded);
      check_shape(loaded.sizes());
      if (p.value.is_meta()) continue;
    }
    if (!loaded.is_floating_point()) {
      fail(ExitCode::checkpoint, path, ": tensor '", name, "' has type ", view.dtype,
           ", expected a floating-point type");
    }
    p.value.copy_(loaded);
  }
  for (const std::string& name : file.names()) {
    if (used.count(name) || (tensor_names.ignored && tensor_names.ignored(name))) continue;
    const bool head_name = name == "lm_head.weight" || name == "_orig_mod.lm_head.weight";
    if (head_name && model.config().tie_word_embeddings) {  // a second copy of a tied head must be the embedding
      const at::Tensor embedding = model.parameters().find("model.embeddings.weight")->value;
      if (embedding.is_meta()) continue;
      const at::Tensor head = tensor_from_view(file.read(name));
      if (head.sizes() == embedding.sizes() && head.to(at::kFloat).equal(embedding.detach().cpu())) continue;
      fail(ExitCode::checkpoint, path,
           ": tie_word_embeddings is true but lm_head.weight differs from model.embeddings.weight");
    }
    std::vector<std::string> expected;
    for (const Parameter& p : model.parameters().list()) {
      expected.push_back(tensor_names.in_file ? tensor_names.in_file(p.name) : p.name);
    }
    fail(ExitCode::checkpoint, path, ": tensor '", name, "' does not belong to a ", model.architecture(),
         " model of this config.", did_you_mean(name, expected));
  }
  file.check_not_cut();
}

std::string weights_path(const std::string& directory) {
  const std::string found = find_weights(directory);
  return found.empty() ? (fs::path(directory) / model_file).string() : found;
}

std::string resolve_model_directory(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) fail(ExitCode::checkpoint, "no model at '", path, "': the path does not exist");
  if (!fs::is_directory(path, error)) {
    fail(ExitCode::checkpoint, "'", path, "' is not a folder with ", config_file, " and ", model_file);
  }
  const auto holds_model = [&](const fs::path& p) {
    return !find_weights(p.string()).empty() && fs::exists(p / config_file);
  };
  if (holds_model(path)) return path;
  const RunFolder folder(path);
  std::vector<RunFolder::Entry> steps = folder.checkpoints();
  std::erase_if(steps, [&](const RunFolder::Entry& entry) { return !holds_model(entry.path); });
  if (holds_model(folder.final_path())) {
    // A run that was extended has checkpoints beyond the end of its first part.
    const std::int64_t end = folder.final_step();
    if (steps.empty() || end < 0 || steps.back().step <= end) return folder.final_path();
  }
  if (holds_model(fs::path(path) / "latest")) return (fs::path(path) / "latest").string();
  if (steps.empty()) {
    fail(ExitCode::checkpoint, "no model in '", path, "': expected ", config_file, " and ", model_file, " (or ",
         torch_model_file, ") there, in final/, latest/ or checkpoints/step-*/");
  }
  return steps.back().path;
}

const std::vector<std::string>& importable_types() {
  static const std::vector<std::string> types = {"llama", "mistral", "qwen2", "qwen3", "gpt2"};
  return types;
}

bool is_importable(const Json& config) {
  if (!config.is_object() || !config.contains("model_type")) return false;
  const auto& types = importable_types();
  return std::find(types.begin(), types.end(), config["model_type"]) != types.end();
}

Json read_model_config(const std::string& path) {
  const std::string directory = resolve_model_directory(path), origin = directory + "/" + config_file;
  Json json = read_json_file(origin, ExitCode::checkpoint);
  if (is_importable(json)) {
    fail(ExitCode::checkpoint, origin, ": a model of the type '", json["model_type"].get<std::string>(),
         "' is to be imported first: satformer import --from hf ", directory, " -o MODEL");
  }
  return json;
}

LoadedModel describe_model(const std::string& path, at::Device device) {
  const std::string directory = resolve_model_directory(path);
  const std::string origin = directory + "/" + config_file;
  Json json = read_model_config(directory);
  if (!json.is_object()) fail(ExitCode::checkpoint, origin, ": not a JSON object");
  std::string name;
  const bool has_type = json.contains("model_type") && json["model_type"].is_string();
  if (json.contains("architectures") && json["architectures"].is_array() && !json["architectures"].empty() &&
      json["architectures"][0].is_string()) {
    name = json["architectures"][0].get<std::string>();
  } else if (has_type) {
    name = json["model_type"].get<std::string>();
  } else {
    fail(ExitCode::checkpoint, origin, ": neither 'architectures' nor 'model_type' names the architecture");
  }
  const Architecture& architecture = architecture_by_name(name);
  if (has_type && json["model_type"] != architecture.model_type) {
    fail(ExitCode::checkpoint, origin, ": 'architectures' names ", architecture.class_name, ", but 'model_type' is '",
         json["model_type"].get<std::string>(), "' where it should be '", architecture.model_type, "'");
  }
  // Hugging Face files carry many keys that say nothing about the shape; only ours are read, and what is one letter
  // away from ours is refused.
  ModelConfig config = default_model_config(architecture);
  ConfigBinding binding(config);
  Json known = Json::object();
  for (const auto& [key, value] : json.items()) {
    for (const Field& field : binding.fields()) {
      if (field.path == key) known[key] = value;
      if (field.path != key && !binding.find(key) && edit_distance(field.path, key) == 1) {
        fail(ExitCode::checkpoint, origin, ": unknown key '", key, "'. Did you mean '", field.path, "'?");
      }
    }
  }
  binding.apply_json(known, origin);
  return {make_model(architecture, config, device), directory};
}

void verify_model_files(const std::string& directory) {
  // Records of version 0.1 without hashes: final/'s with just these keys, a checkpoint's by its number.
  const auto old = [](const Json& record) {
    const auto format = record.find("format");
    if (format != record.end()) return *format == 1;
    for (const auto& [key, value] : record.items()) {
      if (key != "step" && key != "tokens" && key != "val/loss") return false;
    }
    return true;
  };
  for (const char* name : {"state.json", RunFolder::final_record}) {
    if (!fs::exists(directory + "/" + name)) continue;
    const Json record = read_hash_record(directory, name, old);
    const auto hashes = record.find("sha256");
    if (hashes == record.end()) continue;
    for (const auto& [file, hash] : hashes->items()) {
      if (file != name && file != "optimizer.safetensors") verify_hash(directory, file, record, name);
    }
  }
}

LoadedModel load_model(const std::string& path, at::Device device) {
  verify_model_files(resolve_model_directory(path));
  LoadedModel loaded = describe_model(path, device);
  load_weights(*loaded.model, weights_path(loaded.directory));
  return loaded;
}

}  // namespace satformer
