// Models on disk: a folder with config.json and model.safetensors under the authors' tensor names. Folders that hold
// pytorch_model.bin instead, as their trainer writes during a run, are read too.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "models/registry.h"

namespace satformer {

// config.json of Hugging Face form: architectures, model_type, the model's fields.
Json model_config_json(const Model& model);

// Writes model.safetensors and config.json into `directory` (which exists). A tied head is stored once, as the
// embedding. Returns the SHA-256 of the first.
std::string save_model(const Model& model, const std::string& directory);

struct LoadedModel {
  std::unique_ptr<Model> model;
  std::string directory;  // where the files were found
};
// `path`: a folder with config.json and weights, a run folder (final/, latest/ or its newest checkpoint) or a
// checkpoint folder. Missing, extra or misshapen tensors are Error(checkpoint) naming the tensor, the shapes and the
// nearest name; so are files that differ from the hashes recorded beside them.
LoadedModel load_model(const std::string& path, at::Device device);
// Compares model, configuration and tokenizer with the hashes that a checkpoint or final/ holds; other folders have
// none. Error(checkpoint).
void verify_model_files(const std::string& directory);
// `model_type` of the decoders of others that 'satformer import' makes models of, and whether a config.json is of
// one.
const std::vector<std::string>& importable_types();
bool is_importable(const Json& config);
// load_model() without reading weights (parameters are allocated, not set): with the meta device, shapes only.
LoadedModel describe_model(const std::string& path, at::Device device);
// Loads weights into an existing model of the same architecture and shape, from safetensors or a torch.save archive.
// Into a model on the meta device nothing is copied: the file, its names and shapes are checked.
struct TensorNames {
  std::function<std::string(const std::string& parameter)> in_file;  // of a parameter; empty: the same
  std::function<bool(const std::string& name)> ignored;              // tensors of the file that say nothing
  // The parameter from that tensor, which holds it in another form.
  std::function<at::Tensor(const std::string& parameter, const at::Tensor& in_file)> converted;
};
void load_weights(Model& model, const std::string& path, const TensorNames& names = {});
// The weights of a model folder: model.safetensors, pytorch_model.bin, or the index of either's parts.
std::string weights_path(const std::string& directory);
// The config.json of a model folder.
Json read_model_config(const std::string& path);
// A model's folder from a path as above.
std::string resolve_model_directory(const std::string& path);

}  // namespace satformer
