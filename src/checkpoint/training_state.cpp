#include "checkpoint/training_state.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/file_hashes.h"
#include "checkpoint/model_io.h"
#include "checkpoint/tensor_io.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace satformer {
namespace fs = std::filesystem;
namespace {

constexpr int format_version = 2;  // 1: state.json without a hash of itself
constexpr const char* state_file = "state.json";
constexpr const char* optimizer_file = "optimizer.safetensors";
constexpr const char* run_config_file = "run_config.json";

// Each number of the state under its key: written once for reading and writing.
// `later` is like `real` for numbers that checkpoints of earlier versions lack.
void visit_state(auto& state, auto&& integer, auto&& real, auto&& text, auto&& later) {
  integer("step", state.step);
  integer("windows", state.windows);
  integer("tokens", state.tokens);
  integer("validated_step", state.validated_step);
  integer("seed", state.seed);
  integer("train_windows", state.train_windows);
  integer("loss_steps", state.loss_steps);
  integer("warmup_steps", state.warmup_steps);
  integer("total_steps", state.total_steps);
  real("loss_sum", state.loss_sum);
  text("train_data_sha256", state.train_data_sha256);
  text("train_data_generator", state.train_data_generator);
  text("spikes", state.spikes);
  later("seconds", state.seconds);
  later("reached_accuracy", state.reached_accuracy);
}

std::string write_tensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::vector<at::Tensor> kept;
  std::vector<TensorView> views;
  for (const NamedTensor& tensor : tensors) {
    kept.push_back(tensor.value.detach().cpu().contiguous());
    views.push_back(view_of_tensor(tensor.name, kept.back()));
  }
  return write_safetensors(path, std::move(views));
}

Json read_state_json(const std::string& path) {
  if (!fs::exists(path + "/" + state_file)) {
    fail(ExitCode::checkpoint, "'", path, "' is no training checkpoint: it holds no ", state_file);
  }
  return read_hash_record(path, state_file, [](const Json& record) {
    const auto format = record.find("format");
    return format != record.end() && *format == 1;
  });
}

// state.json with the hashes of the indispensable files.
Json read_hashes(const std::string& path) {
  Json json = read_state_json(path);
  const auto hashes = json.find("sha256");
  if (hashes == json.end() || !hashes->is_object()) {
    fail(ExitCode::checkpoint, path, "/", state_file, ": 'sha256' is missing");
  }
  for (const char* name : {"model.safetensors", "config.json", optimizer_file, run_config_file}) {
    if (!hashes->contains(name)) fail(ExitCode::checkpoint, path, "/", state_file, ": no sha256 of ", name);
  }
  return json;
}

}  // namespace

void take_snapshot(CheckpointParts& parts) {
  const auto copied = [](const at::Tensor& tensor) {
    const at::Tensor flat = tensor.detach();
    return flat.device().is_cpu() ? flat.clone() : flat.cpu();
  };
  for (const Parameter& p : parts.model->parameters().list()) parts.weights.push_back({p.name, copied(p.value)});
  for (NamedTensor& tensor : parts.optimizer) tensor.value = copied(tensor.value);
  parts.model_config = model_config_json(*parts.model).dump(2) + "\n";
  parts.model = nullptr;
}

std::string save_checkpoint(const RunFolder& folder, const CheckpointParts& parts) {
  const std::string target = folder.checkpoint_path(parts.state.step);
  folder.replace_folder(target, [&](const std::string& directory) {
    std::map<std::string, std::string> hashes;
    if (parts.model) {
      hashes["model.safetensors"] = save_model(*parts.model, directory);
    } else {
      hashes["model.safetensors"] = write_tensors(directory + "/model.safetensors", parts.weights);
      write_file_atomic(directory + "/config.json", parts.model_config);
    }
    if (parts.save_tokenizer) parts.save_tokenizer(directory);
    hashes[optimizer_file] = write_tensors(directory + "/" + optimizer_file, parts.optimizer);
    write_file_atomic(directory + "/" + run_config_file, parts.run_config);
    Json json = Json::object();
    json["format"] = format_version;
    const auto put = [&](const char* key, const auto& value) { json[key] = value; };
    visit_state(parts.state, put, put, put, put);
    write_hash_record(directory, state_file, std::move(json), hashes);
  });
  return target;
}

TrainingState read_training_state(const std::string& path) {
  const Json json = read_state_json(path);
  const std::string file = path + "/" + state_file;
  const auto number = [&](const char* key, bool real) -> const Json& {
    const auto it = json.find(key);
    if (it == json.end() || !(real ? it->is_number() : it->is_number_integer())) {
      fail(ExitCode::checkpoint, file, ": '", key, "' is missing or not a number");
    }
    return *it;
  };
  if (const auto version = number("format", false).get<std::int64_t>(); version < 1 || version > format_version) {
    fail(ExitCode::checkpoint, file, ": format ", version, " is not known here, expected 1 or ", format_version);
  }
  TrainingState state;
  visit_state(
      state, [&](const char* key, std::int64_t& value) { value = number(key, false).get<std::int64_t>(); },
      [&](const char* key, double& value) { value = number(key, true).get<double>(); },
      [&](const char* key, std::string& value) {
        if (const auto it = json.find(key); it != json.end() && it->is_string()) value = it->get<std::string>();
      },
      [&](const char* key, double& value) {
        if (json.contains(key)) value = number(key, true).get<double>();
      });
  return state;
}

void verify_checkpoint(const std::string& path) {
  const Json record = read_hashes(path);
  for (const auto& [name, hash] : record["sha256"].items()) {
    if (name != state_file) verify_hash(path, name, record, state_file);
  }
}

void load_checkpoint(const std::string& path, Model& model, const std::vector<NamedTensor>& optimizer) {
  load_weights(model, path + "/model.safetensors");
  const SafetensorsFile file(path + "/" + optimizer_file);
  std::vector<std::string> names;
  for (const TensorView& tensor : file.tensors()) names.push_back(tensor.name);
  for (const NamedTensor& tensor : optimizer) {
    const TensorView* found = file.find(tensor.name);
    if (!found) {
      fail(ExitCode::checkpoint, file.path(), ": tensor '", tensor.name, "' is missing.",
           did_you_mean(tensor.name, names));
    }
    const std::string dtype = tensor.value.scalar_type() == at::kBFloat16 ? "BF16" : "F32";
    if (found->dtype != dtype || tensor.value.sizes() != at::IntArrayRef(found->shape)) {
      fail(ExitCode::checkpoint, file.path(), ": tensor '", tensor.name, "' is ", found->dtype, " ",
           shape_text(found->shape), ", expected ", dtype, " ", shape_text(tensor.value.sizes()));
    }
    tensor.value.detach().copy_(tensor_from_view(*found));
  }
  if (names.size() != optimizer.size()) {
    fail(ExitCode::checkpoint, file.path(), ": ", names.size(), " tensors, expected ", optimizer.size());
  }
  file.check_not_cut();
}

Json checkpoint_run_config(const std::string& path) {
  verify_hash(path, run_config_file, read_hashes(path), state_file);
  return read_json_file(path + "/" + run_config_file, ExitCode::checkpoint);
}

std::string resolve_checkpoint(const std::string& path) {
  if (fs::exists(path + "/" + state_file)) return path;
  const auto checkpoints = RunFolder(path).checkpoints();
  if (!checkpoints.empty()) return checkpoints.back().path;
  fail(ExitCode::checkpoint, "no checkpoint in '", path, "': expected a folder with ", state_file,
       " or a run folder with checkpoints/step-*");
}

}  // namespace satformer
