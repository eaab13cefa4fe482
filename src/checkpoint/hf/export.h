// A model as a folder that stock transformers loads: a plain decoder as Llama or Qwen3, every other routing and value
// path with modelling files of our own (trust_remote_code).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/registry.h"

namespace satformer {

enum class HfForm { llama, qwen3, own };
// Llama where a plain decoder has no qk norm, Qwen3 where its qk norm has norm_eps as epsilon too; both without
// biases and window.
HfForm hf_form(const ModelConfig& config);
// The class that transformers makes: "LlamaForCausalLM", "SATFormerForCausalLM".
std::string hf_class(const Model& model, HfForm form);
// Name of a parameter in Llama's and Qwen3's files.
std::string llama_tensor_name(const std::string& parameter);

struct HfTokenIds {
  std::int64_t bos = -1, eos = -1;  // -1: none
};

// config.json: the model's fields, `auto_map`, both spellings of type and rotary base.
Json hf_config(const Model& model, HfForm form, const HfTokenIds& ids);
Json hf_generation_config(const Model& model, const HfTokenIds& ids);

// Writes config.json, generation_config.json, weights and the modelling files into `directory`, which exists. The
// parameters are written in their own type.
void write_hf_model(const Model& model, HfForm form, const HfTokenIds& ids, std::int64_t max_shard_bytes,
                    const std::string& directory);

}  // namespace satformer
