// A model as a GGUF file for llama.cpp, and such a file as a model again.
#pragma once

#include <memory>
#include <string>

#include "io/gguf.h"
#include "models/registry.h"

namespace satformer {

// llama.cpp's name for the decoder: "llama", "qwen3" with qk norm, "qwen2" with biases. Error(checkpoint) naming what
// it has no decoder for: another value path or routing, windows, qk norm with an epsilon of its own, biases and qk
// norm together.
std::string gguf_architecture(const ModelConfig& config);

// general.* and {architecture}.* of the metadata.
GgufMetadata gguf_metadata(const Model& model, const std::string& name, GgufType type);

// Matrices in `type`, norms and biases in fp32. Error(usage) if rows do not fill the blocks of q8_0.
void write_gguf_model(const Model& model, const GgufMetadata& metadata, GgufType type, const std::string& path);

// A Transformer in fp32 from a file that write_gguf_model() wrote. Error(checkpoint) for others.
std::unique_ptr<Model> read_gguf_model(const std::string& path);

}  // namespace satformer
