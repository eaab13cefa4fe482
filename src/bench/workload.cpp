#include "bench/workload.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/random.h"
#include "bench/saved_bytes.h"
#include "models/registry.h"
#include "nn/device.h"
#include "train/estimate.h"
#include "train/optimizer.h"
#include "train/run_config.h"
#include "train/step.h"

namespace satformer {
namespace {

constexpr std::int64_t decode_tokens = 32;  // of each row in one repetition

at::Tensor random_ids(std::int64_t rows, std::int64_t columns, std::int64_t vocab_size) {
  const Philox random(1, hash_name("bench ids"));
  const at::Tensor ids = at::empty({rows, columns}, at::kLong);
  auto* data = ids.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    data[i] = static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(i)) %
                                        static_cast<std::uint64_t>(vocab_size));
  }
  return ids;
}

WeightFormat format_of(const WorkloadSpec& spec) {
  return spec.weights == "int8" ? WeightFormat::int8 : WeightFormat::int4;
}

}  // namespace

void WorkloadSpec::visit(FieldVisitor& v) {
  v.field("architecture", &architecture, "by any of its names");
  v.field("phase", &phase, "what is timed", {.choices = {"train", "prefill", "decode"}});
  v.field("batch_size", &batch_size, "rows", {.min = 1, .max = 1 << 20});
  v.field("context", &context, "tokens of a row", {.min = 1, .max = 1 << 24});
  v.field("dtype", &dtype, "computing type", {.choices = {"float32", "bfloat16", pure_bfloat16}});
  v.field("weights", &weights, "type of the weights", {.choices = {"full", "int8", "int4"}});
  v.field("device", &device, "cpu, cuda or cuda:N");
}

void WorkloadSpec::validate() const {
  WorkloadSpec copy = *this;
  ConfigBinding binding(copy);
  binding.apply_json(binding.to_json(), "bench");
  check_device_name(device);
  if (weights != "full" && (phase == "train" || device != "cpu")) {
    fail(ExitCode::config, weights, " weights are for prefill and decode on a CPU, not for ",
         phase == "train" ? "training" : device);
  }
  make_workload_model(*this, at::Device(c10::DeviceType::Meta));
}

std::unique_ptr<Model> make_workload_model(const WorkloadSpec& spec, at::Device device) {
  const Architecture& architecture = architecture_by_name(spec.architecture);
  ModelConfig config = model_config_from_json(architecture, parse_json(spec.overrides, "bench"), "bench");
  config.max_position_embeddings = spec.context + (spec.phase == "decode" ? decode_tokens : 0);
  config.validate();
  return make_model(architecture, config, device);
}

double workload_flops_per_token(const WorkloadSpec& spec, const Model& model) {
  const Flops flops = training_flops(model, spec.context);
  if (spec.phase == "train") return flops.per_token();
  // A decoded token attends to the whole context, a prefilled one to half of it on average.
  return (flops.matmul_per_token + flops.attention_per_token * (spec.phase == "decode" ? 2 : 1)) / 3;
}

double workload_bytes_per_token(const WorkloadSpec& spec, const Model& model) {
  const ModelConfig& c = model.config();
  const double element = spec.dtype == "float32" ? 4 : 2;
  double weights = 0;
  for (const Parameter& p : model.parameters().list()) {
    const bool head = p.part == "head" || (p.part == "embedding" && c.tie_word_embeddings);
    if (p.part == "embedding" && !head) continue;  // a row for each token
    const bool packed = head || (p.kind == ParamKind::matrix && (p.part == "attention" || p.part == "mlp"));
    weights += packed && spec.weights != "full"
                   ? static_cast<double>(packed_bytes(format_of(spec), p.value.size(0), p.value.size(1)))
                   : static_cast<double>(p.value.numel()) * element;
  }
  double slot = 0;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    slot += static_cast<double>(c.kv_heads() * c.head_dim()) * element * (c.projects_values(layer) ? 2 : 1);
  }
  const double slots = static_cast<double>(spec.context) + decode_tokens / 2.0;
  return weights / static_cast<double>(spec.batch_size) + slot * slots;
}

struct Workload::Impl {
  explicit Impl(const WorkloadSpec& s)
      : spec(s), device(parse_device(s.device)), model(make_workload_model(s, device)) {
    model->parameters().initialise(1);
    model->set_compute_dtype(spec.dtype == "float32" ? at::kFloat : at::kBFloat16);
    if (spec.dtype == pure_bfloat16) model->parameters().to(at::kBFloat16);
    if (spec.weights != "full") model->quantise_weights(format_of(spec));
    const at::Tensor tokens = random_ids(spec.batch_size, spec.context + 1, model->config().vocab_size);
    ids = tokens.narrow(1, 0, spec.context).contiguous().to(device);
    targets = tokens.narrow(1, 1, spec.context).contiguous().to(device);
    if (spec.phase == "train") optimizer = std::make_unique<Optimizer>(model->parameters(), OptimizerOptions{});
  }

  ForwardOptions training() const {
    ForwardOptions options;
    options.recompute_layers = spec.recompute;
    return options;
  }

  double train_step() {
    optimizer->clear_gradients();
    const Batch batch{ids, targets};
    const StepLoss loss = accumulate_gradients(*model, {&batch, 1}, training());
    optimizer->step(1e-4, optimizer->gradient_norm());
    return loss.loss;
  }

  void prefill(KvCache* into) {
    const at::NoGradGuard no_grad;
    ForwardOptions options;
    options.cache = into;
    options.logits_to_keep = 1;
    model->logits(ids, options).sum().item<double>();
  }

  KvCache new_cache() const {
    return {model->config(), spec.batch_size, model->config().max_position_embeddings, model->compute_dtype(),
            device};
  }

  void decode() {
    const at::NoGradGuard no_grad;
    cache->truncate(spec.context);
    ForwardOptions options;
    options.cache = cache.get();
    at::Tensor next = ids.narrow(1, 0, 1).contiguous();
    for (std::int64_t i = 0; i < decode_tokens; ++i)
      next = model->logits(next, options).select(1, 0).argmax(-1, true);
    next.sum().item<std::int64_t>();
  }

  WorkloadSpec spec;
  at::Device device;
  std::unique_ptr<Model> model;
  at::Tensor ids, targets;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<KvCache> cache;
  std::optional<std::int64_t> saved;
};

Workload::Workload(const WorkloadSpec& spec) {
  set_num_threads(spec.threads);
  impl_ = std::make_unique<Impl>(spec);
}
Workload::~Workload() = default;

Workload::Timing Workload::run(double least) {
  using Steady = std::chrono::steady_clock;
  Impl& w = *impl_;
  if (w.spec.phase == "decode" && !w.cache) {
    w.cache = std::make_unique<KvCache>(w.new_cache());
    w.prefill(w.cache.get());
  }
  if (w.spec.phase == "train" && !w.saved) w.saved = saved_bytes(*w.model, w.ids, w.targets, w.training());
  Timing timing;
  timing.saved_bytes = w.saved.value_or(0);
  const auto start = Steady::now();
  do {
    if (w.spec.phase == "train") {
      timing.loss = w.train_step();
      timing.tokens += w.spec.batch_size * w.spec.context;
    } else if (w.spec.phase == "prefill") {
      w.prefill(nullptr);
      timing.tokens += w.spec.batch_size * w.spec.context;
    } else {
      w.decode();
      timing.tokens += w.spec.batch_size * decode_tokens;
    }
    ++timing.repetitions;
    timing.seconds = std::chrono::duration<double>(Steady::now() - start).count();
  } while (timing.seconds < least);
  return timing;
}

}  // namespace satformer
