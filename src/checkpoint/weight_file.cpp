#include "checkpoint/weight_file.h"

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace satformer {
namespace fs = std::filesystem;
namespace {

const char* const index_suffix = ".index.json";
const char* const safetensors_index = "model.safetensors.index.json";

}  // namespace

WeightFile::WeightFile(const std::string& path) {
  if (!path.ends_with(index_suffix)) {
    add(path);
    return;
  }
  const Json index = read_json_file(path, ExitCode::checkpoint);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object()) fail(ExitCode::checkpoint, path, ": no object 'weight_map'");
  std::set<std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || fs::path(file.get<std::string>()).filename() != file.get<std::string>()) {
      fail(ExitCode::checkpoint, path, ": tensor '", name, "' must name a file beside the index");
    }
    files.insert(file.get<std::string>());
  }
  for (const std::string& file : files) {
    const std::string part = (fs::path(path).parent_path() / file).string();
    if (!fs::exists(part)) fail(ExitCode::checkpoint, path, ": the file '", file, "' that it names is missing");
    add(part);
  }
  for (const auto& [name, file] : map->items()) {
    if (!contains(name)) fail(ExitCode::checkpoint, path, ": tensor '", name, "' is in none of its files");
  }
  for (const std::string& name : names_) {
    if (!map->contains(name)) fail(ExitCode::checkpoint, path, ": does not name tensor '", name, "' of its files");
  }
}

void WeightFile::add(const std::string& path) {
  Part part;
  std::vector<std::string> names;
  if (is_torch_archive(path) || path.ends_with(".bin")) {  // of a .bin that is none, the archive says what it is not
    part.archive = std::make_unique<TorchArchive>(path);
    names = part.archive->names();
  } else {
    part.safetensors = std::make_unique<SafetensorsFile>(path);
    for (const TensorView& view : part.safetensors->tensors()) names.push_back(view.name);
  }
  for (const std::string& name : names) {
    if (!where_.emplace(name, parts_.size()).second) {
      fail(ExitCode::checkpoint, path, ": tensor '", name, "' is in another of the files too");
    }
    names_.push_back(name);
  }
  parts_.push_back(std::move(part));
}

TensorView WeightFile::read(const std::string& name) {
  const auto found = where_.find(name);
  if (found == where_.end()) fail(ExitCode::internal, "no tensor '", name, "'");
  const Part& part = parts_[found->second];
  return part.archive ? part.archive->read(name, buffer_) : *part.safetensors->find(name);
}

void WeightFile::check_not_cut() const {
  for (const Part& part : parts_) {
    if (part.safetensors) part.safetensors->check_not_cut();
  }
}

std::string find_weights(const std::string& directory) {
  for (const char* file :
       {"model.safetensors", safetensors_index, "pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    const fs::path path = fs::path(directory) / file;
    if (fs::exists(path)) return path.string();
  }
  return {};
}

std::vector<std::string> write_weights(const std::string& directory, const std::vector<TensorView>& tensors,
                                       std::int64_t max_shard_bytes) {
  std::vector<std::vector<TensorView>> shards(1);
  std::int64_t filled = 0, total = 0, elements = 0;
  for (const TensorView& tensor : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.data.size());
    if (filled > 0 && filled + bytes > max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(tensor);
    filled += bytes;
    total += bytes;
    elements += bytes / static_cast<std::int64_t>(dtype_size(tensor.dtype));
  }
  const auto file = [&](const std::string& name) { return (fs::path(directory) / name).string(); };
  if (shards.size() == 1) {
    write_safetensors(file("model.safetensors"), shards[0]);
    return {"model.safetensors"};
  }
  std::vector<std::string> files;
  Json map = Json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    write_safetensors(file(name), shards[i]);
    for (const TensorView& tensor : shards[i]) map[tensor.name] = name;
    files.emplace_back(name);
  }
  const Json index = {{"metadata", {{"total_parameters", elements}, {"total_size", total}}}, {"weight_map", map}};
  write_file_atomic(file(safetensors_index), index.dump(2) + "\n");
  files.emplace_back(safetensors_index);
  return files;
}

}  // namespace satformer
