// Models of others as ours: folders in the form of Hugging Face.
#pragma once

#include <string>

#include "checkpoint/model_io.h"

namespace satformer {

// The architecture and config that a folder's config.json stands for: of our own exports and of the SATFormer
// authors' checkpoints, their fields; of Llama, Mistral, Qwen2, Qwen3 and GPT-2, a Transformer. Error(checkpoint)
// names what differs from these decoders: another model type, other kinds of rope scaling, biases, quantisation.
struct ForeignConfig {
  std::string architecture;
  ModelConfig config;
  enum class Names { own, llama, gpt2 };
  Names names = Names::own;               // how tensors are called and laid out
  std::vector<std::string> remarks = {};  // what of the file could not be kept
};
ForeignConfig read_hf_config(const std::string& directory);

// Reads config and weights (safetensors or pytorch_model.bin, in one file or in parts).
LoadedModel import_hf_model(const std::string& directory, at::Device device,
                            std::vector<std::string>* remarks = nullptr);

}  // namespace satformer
