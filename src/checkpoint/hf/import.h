// Models of others as ours: folders in the form of Hugging Face.
#pragma once

#include <string>

#include "checkpoint/model_io.h"

namespace satformer {

// The architecture and config that a folder's config.json stands for: of our own exports and of the SATFormer
// authors' checkpoints, their fields; of Llama, Mistral, Qwen2 and Qwen3, a Transformer. Error(checkpoint) names what
// differs from these decoders: another model type, other kinds of rope scaling, biases, quantisation.
struct ForeignConfig {
  std::string architecture;
  ModelConfig config;
  bool llama_names = false;  // tensors are named as Llama's
};
ForeignConfig read_hf_config(const std::string& directory);

// Reads config and weights (safetensors or pytorch_model.bin, in one file or in parts).
LoadedModel import_hf_model(const std::string& directory, at::Device device);

}  // namespace satformer
