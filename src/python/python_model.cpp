#include "python/python_model.h"

#include <ATen/core/grad_mode.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "nn/device.h"

namespace satformer::python {
namespace {

// Ids as [B, T] int64 on the model's device.
at::Tensor rows_of_ids(const at::Tensor& ids, const Model& model) {
  if (ids.dim() < 1 || ids.dim() > 2 || !at::isIntegralType(ids.scalar_type(), false)) {
    fail(ExitCode::usage, "ids must be a tensor [B, T] or [T] of integers, not one of ", ids.dim(), " axes of ",
         at::toString(ids.scalar_type()));
  }
  const at::Tensor rows = ids.dim() == 1 ? ids.unsqueeze(0) : ids;
  if (rows.numel() == 0) fail(ExitCode::usage, "ids hold no token");
  const std::int64_t low = rows.min().item<std::int64_t>(), high = rows.max().item<std::int64_t>();
  const std::int64_t vocab = model.config().vocab_size;
  if (low < 0 || high >= vocab) {
    fail(ExitCode::data, "id ", low < 0 ? low : high, " is outside the vocabulary of ", vocab);
  }
  return rows.to(at::TensorOptions().dtype(at::kLong).device(model.parameters().device())).contiguous();
}

class GateCollector : public LayerObserver {
 public:
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override {
    gates[{layer, source}] = alpha_BTH.detach().clone();
    return alpha_BTH;
  }
  std::map<std::pair<std::int64_t, std::int64_t>, at::Tensor> gates;
};

}  // namespace

PythonModel::PythonModel(const std::string& path, const std::string& device, const std::string& dtype) {
  if (dtype != "float32" && dtype != "bfloat16") {
    fail(ExitCode::usage, "dtype '", dtype, "' is not one of: float32, bfloat16");
  }
  loaded_ = load_model(path, parse_device(device));
  loaded_.model->set_compute_dtype(dtype == "float32" ? at::kFloat : at::kBFloat16);
}

std::string PythonModel::config() const { return model_config_json(model()).dump(); }

std::map<std::string, at::Tensor> PythonModel::parameters() const {
  std::map<std::string, at::Tensor> result;
  for (const Parameter& p : model().parameters().list()) result[p.name] = p.value;
  return result;
}

at::Tensor PythonModel::logits(const at::Tensor& ids, const std::optional<at::Tensor>& attention_mask) {
  ForwardOptions options;
  const at::Tensor rows = rows_of_ids(ids, model());
  if (attention_mask) {
    const at::Tensor mask = attention_mask->dim() == 1 ? attention_mask->unsqueeze(0) : *attention_mask;
    if (mask.sizes() != rows.sizes()) fail(ExitCode::usage, "attention_mask must have the shape of ids");
    options.attention_mask_BT = mask.to(rows.options()).contiguous();
  }
  return loaded_.model->logits(rows, options);
}

at::Tensor PythonModel::loss(const at::Tensor& ids, const at::Tensor& targets) {
  const at::Tensor rows = rows_of_ids(ids, model());
  const at::Tensor wanted = (targets.dim() == 1 ? targets.unsqueeze(0) : targets).to(rows.options()).contiguous();
  if (wanted.sizes() != rows.sizes()) fail(ExitCode::usage, "targets must have the shape of ids");
  const auto count = wanted.ne(-100).sum().item<std::int64_t>();
  if (count == 0) fail(ExitCode::usage, "every target is -100");
  return loaded_.model->loss(rows, wanted, 1.0 / static_cast<double>(count), {});
}

std::map<std::pair<std::int64_t, std::int64_t>, at::Tensor> PythonModel::gates(const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  GateCollector collector;
  ForwardOptions options;
  options.observer = &collector;
  loaded_.model->hidden(rows_of_ids(ids, model()), options);
  if (collector.gates.empty()) {
    fail(ExitCode::config, "'", directory(), "' (", model().architecture(), ") has no gates: its value_path is '",
         model().config().effective_value_path(), "'");
  }
  return std::move(collector.gates);
}

std::vector<std::vector<std::int64_t>> PythonModel::generate(const std::vector<std::vector<std::int64_t>>& prompts,
                                                             const GenerateOptions& options) {
  check_sampling(options.sampling);
  if (prompts.empty()) return {};
  return satformer::generate(*loaded_.model, prompts, options);
}

}  // namespace satformer::python
