// A model on disk as Python sees it: weights, logits, loss, gates and generation.
#pragma once

#include "kernels/tensor.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/model_io.h"
#include "infer/generator.h"

namespace satformer::python {

class PythonModel {
 public:
  // `path` as load_model(); dtype "float32" or "bfloat16", the type to compute in. Errors: of load_model(), usage.
  PythonModel(const std::string& path, const std::string& device, const std::string& dtype);

  const Model& model() const { return *loaded_.model; }
  const std::string& directory() const { return loaded_.directory; }
  std::string config() const;                            // config.json
  std::map<std::string, at::Tensor> parameters() const;  // by name, sharing the model's storage

  // ids [B, T] or [T], of any integer type; mask [B, T], 1 = token, 0 = pad. fp32 [B, T, V].
  at::Tensor logits(const at::Tensor& ids, const std::optional<at::Tensor>& attention_mask);
  // Mean cross-entropy of targets [B, T] that are aligned with the ids (-100: left out). Differentiable.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets);
  // Gates [B, T, KV heads] by (layer, source layer). Error(config) for a model without gates.
  std::map<std::pair<std::int64_t, std::int64_t>, at::Tensor> gates(const at::Tensor& ids);
  std::vector<std::vector<std::int64_t>> generate(const std::vector<std::vector<std::int64_t>>& prompts,
                                                  const GenerateOptions& options);

 private:
  LoadedModel loaded_;
};

}  // namespace satformer::python
