#include "eval/golden.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "checkpoint/tensor_io.h"
#include "kernels/adamw/adamw.h"
#include "models/registry.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  std::unique_ptr<SafetensorsFile> file;
  std::unique_ptr<Model> model;
  at::Device device = at::kCPU;
  std::int64_t steps = 0;
  double learning_rate = 0;
  at::Tensor ids, targets, mask;
  double scale = 0;  // 1 / target tokens

  at::Tensor need(const std::string& key) const {
    const TensorView* view = file->find(key);
    if (!view) fail(ExitCode::data, file->path(), ": tensor '", key, "' is missing");
    return tensor_from_view(*view).to(device);
  }
  ForwardOptions forward_options() const {
    ForwardOptions options;
    options.attention_mask_BT = mask;
    return options;
  }
};

double worst(double a, double b) { return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b); }

double max_difference(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  if (a.sizes() != b.sizes()) fail(ExitCode::data, what, ": shapes differ from the reference");
  if (a.numel() == 0) return 0;
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

void check_inputs(const Case& c) {
  const std::string& path = c.file->path();
  const std::int64_t V = c.model->config().vocab_size;
  const at::Tensor ids = c.need("input_ids"), labels = c.need("labels");
  const auto check = [&](bool ok, const char* tensor, const char* expected) {
    if (!ok) fail(ExitCode::data, path, ": tensor '", tensor, "' must be ", expected);
  };
  check(ids.dim() == 2 && ids.numel() > 0 && ids.scalar_type() == at::kLong, "input_ids", "an I64 matrix [B, T]");
  check(ids.ge(0).logical_and(ids.lt(V)).all().item<bool>(), "input_ids", "inside the vocabulary");
  check(labels.sizes() == ids.sizes() && labels.scalar_type() == at::kLong, "labels", "I64 of input_ids' shape");
  check(labels.eq(-100).logical_or(labels.ge(0).logical_and(labels.lt(V))).all().item<bool>(), "labels",
        "inside the vocabulary or -100");
  check(c.need("loss").numel() == 1, "loss", "one number");
  if (c.file->find("attention_mask")) {
    check(c.need("attention_mask").sizes() == ids.sizes(), "attention_mask", "of input_ids' shape");
  }
  if (c.steps == 0) return;
  check(c.need("traj.loss").numel() == c.steps, "traj.loss", "one number per step");
  check(c.need("traj.grad_norm").numel() == c.steps, "traj.grad_norm", "one number per step");
}

Case load_case(const std::string& json_path, at::Device device) {
  const Json json = read_json_file(json_path, ExitCode::data);
  const auto need = [&](const char* key) {
    if (!json.is_object() || !json.contains(key)) fail(ExitCode::data, json_path, ": key '", key, "' is missing");
    return json[key];
  };
  Case c;
  c.device = device;
  c.name = fs::path(json_path).stem().string();
  const Json arch = need("arch");
  if (!arch.is_string()) fail(ExitCode::data, json_path, ": 'arch' must be a string");
  const Architecture& architecture = architecture_by_name(arch.get<std::string>());
  c.model =
      make_model(architecture, model_config_from_json(architecture, need("config_overrides"), json_path), device);
  if (json.contains("steps") && json["steps"].is_number_integer()) c.steps = json["steps"].get<std::int64_t>();
  if (json.contains("learning_rate") && json["learning_rate"].is_number()) {
    c.learning_rate = json["learning_rate"].get<double>();
  }
  c.file = std::make_unique<SafetensorsFile>(fs::path(json_path).replace_extension(".safetensors").string());
  at::NoGradGuard no_grad;
  std::set<std::string> used;
  for (Parameter& p : c.model->parameters().list()) {
    const at::Tensor value = c.need("param." + p.name);
    if (value.sizes() != p.value.sizes())
      fail(ExitCode::data, c.file->path(), ": param.", p.name, " has another shape");
    p.value.copy_(value);
    used.insert("param." + p.name);
  }
  for (const TensorView& view : c.file->tensors()) {
    const bool tied_head = view.name == "param.lm_head.weight" && c.model->config().tie_word_embeddings;
    if (view.name.rfind("param.", 0) == 0 && !used.count(view.name) && !tied_head) {
      fail(ExitCode::data, c.file->path(), ": ", view.name, " belongs to no parameter of this ", architecture.name);
    }
  }
  check_inputs(c);
  c.ids = c.need("input_ids");
  const at::Tensor labels = c.need("labels");
  c.targets = at::full(labels.sizes(), -100, labels.options());
  c.targets.narrow(1, 0, labels.size(1) - 1).copy_(labels.narrow(1, 1, labels.size(1) - 1));
  c.scale = 1.0 / static_cast<double>(std::max<std::int64_t>(1, c.targets.ne(-100).sum().item<std::int64_t>()));
  if (c.file->find("attention_mask")) c.mask = c.need("attention_mask");
  if (c.steps < 0 || c.steps > 100000) fail(ExitCode::data, json_path, ": steps = ", c.steps, " is out of range");
  return c;
}

// Runs the sequence in blocks of a first few tokens and then one at a time through a cache.
void check_decoding(const Case& c, const at::Tensor& full_logits_BTV, GoldenResult& result) {
  at::NoGradGuard no_grad;
  const std::int64_t B = c.ids.size(0), T = c.ids.size(1);
  const ModelConfig& config = c.model->config();
  KvCache cache(config, B, T, at::kFloat, c.device);
  const std::int64_t transformer_bytes =
      2 * config.num_hidden_layers * B * T * config.kv_heads() * config.head_dim() * 4;
  result.cache_bytes_equal = cache.bytes() == transformer_bytes;
  std::vector<at::Tensor> blocks;
  for (std::int64_t begin = 0; begin < T;) {
    const std::int64_t count = begin == 0 ? std::min<std::int64_t>(T, 1 + T / 3) : 1;
    ForwardOptions options;
    options.cache = &cache;
    if (c.mask.defined()) options.attention_mask_BT = c.mask.narrow(1, begin, count);
    blocks.push_back(c.model->logits(c.ids.narrow(1, begin, count), options));
    begin += count;
  }
  at::Tensor difference = at::cat(blocks, 1) - full_logits_BTV;
  if (c.mask.defined()) difference = difference * c.mask.unsqueeze(-1);
  result.decode = difference.abs().max().item<double>();
}

void clear_gradients(Model& model) {
  for (Parameter& p : model.parameters().list()) p.value.mutable_grad() = at::Tensor();
}

at::Tensor backward_loss(const Case& c) {
  clear_gradients(*c.model);
  const at::Tensor loss = c.model->loss(c.ids, c.targets, c.scale, c.forward_options());
  loss.backward();
  return loss.detach();
}

at::Tensor gradient_of(const Parameter& p) {
  return p.value.grad().defined() ? p.value.grad() : at::zeros_like(p.value);
}

void check_trajectory(Case& c, GoldenResult& result) {
  const at::Tensor losses = c.need("traj.loss").cpu(), norms = c.need("traj.grad_norm").cpu();
  AdamWTensors state;
  for (Parameter& p : c.model->parameters().list()) {
    state.params.push_back(p.value);
    state.m.push_back(at::zeros_like(p.value));
    state.v.push_back(at::zeros_like(p.value));
  }
  for (std::int64_t step = 0; step < c.steps; ++step) {
    const double loss = backward_loss(c).item<double>();
    state.grads.clear();
    for (const Parameter& p : c.model->parameters().list()) state.grads.push_back(gradient_of(p));
    const double norm = global_norm(state.grads);
    result.trajectory_loss = worst(result.trajectory_loss, std::abs(loss - losses[step].item<double>()));
    result.trajectory_norm = worst(result.trajectory_norm, std::abs(norm - norms[step].item<double>()));
    AdamWOptions options;
    options.learning_rate = c.learning_rate;
    options.weight_decay = 0.1;
    options.grad_scale = std::min(1.0, 1.0 / (norm + 1e-6));
    options.step = step + 1;
    adamw_step(state, options);
  }
}

}  // namespace

bool GoldenResult::passes(const GoldenTolerance& t) const {
  // Written so that NaN fails.
  return logits <= t.values && loss <= t.values && gradient <= t.values && decode <= t.values && cache_bytes_equal &&
         trajectory_loss <= t.trajectory_loss && trajectory_norm <= t.trajectory_norm;
}

GoldenResult run_golden_case(const std::string& json_path, Backend backend, at::Device device) {
  const BackendScope scope(backend);
  Case c = load_case(json_path, device);
  GoldenResult result;
  result.name = c.name;
  result.architecture = c.model->architecture();
  result.steps = c.steps;
  {
    at::NoGradGuard no_grad;
    const at::Tensor logits = c.model->logits(c.ids, c.forward_options());
    result.logits = max_difference(logits, c.need("logits"), c.name + ": logits");
    check_decoding(c, logits, result);
  }
  const at::Tensor loss = backward_loss(c);
  result.loss = std::abs(loss.item<double>() - c.need("loss").item<double>());
  for (const Parameter& p : c.model->parameters().list()) {
    const double d = max_difference(gradient_of(p), c.need("grad." + p.name), c.name + ": grad." + p.name);
    if (!(d <= result.gradient) && !std::isnan(result.gradient)) {
      result.gradient = d;
      result.worst_gradient = p.name;
    }
  }
  if (c.steps > 0) check_trajectory(c, result);
  return result;
}

std::vector<std::string> find_golden_cases(const std::vector<std::string>& paths) {
  std::vector<std::string> cases;
  for (const std::string& path : paths) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
      const std::size_t before = cases.size();
      for (const auto& entry : fs::directory_iterator(path)) {
        if (entry.path().extension() == ".json") cases.push_back(entry.path().string());
      }
      if (cases.size() == before) fail(ExitCode::data, "no case (NAME.json) in folder '", path, "'");
      std::sort(cases.begin() + static_cast<std::ptrdiff_t>(before), cases.end());
    } else if (fs::exists(path, error)) {
      if (fs::path(path).extension() != ".json") fail(ExitCode::usage, "'", path, "' is not a NAME.json case");
      cases.push_back(path);
    } else {
      fail(ExitCode::data, "no case at '", path, "'");
    }
  }
  return cases;
}

}  // namespace satformer
