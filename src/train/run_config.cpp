#include "train/run_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/model_io.h"
#include "data/synthetic/task.h"

namespace satformer {
namespace {

const FieldRules unused{.unused = true};
constexpr double tokens_per_billion = 1e9;

std::int64_t billions(double value) { return std::llround(value * tokens_per_billion); }

void erase_path(Json& json, const std::string& path) {
  Json* node = &json;
  std::size_t start = 0;
  for (auto dot = path.find('.'); dot != std::string::npos; start = dot + 1, dot = path.find('.', start)) {
    node = &(*node)[path.substr(start, dot - start)];
  }
  node->erase(path.substr(start));
}

}  // namespace

void ModelSection::visit(FieldVisitor& v) {
  v.field("source", &source, "where the authors' trainer finds the class",
          {.choices = {"local_class", "huggingface"}, .unused = true});
  v.field("module", &module, "the authors' modelling module", unused);
  v.field("class_name", &class_name, "architecture, by any of its names");
  v.field("config_module", &config_module, "the authors' configuration module", unused);
  v.field("config_class_name", &config_class_name, "the authors' configuration class", unused);
  v.field("from_pretrained", &from_pretrained, "start from the weights of pretrained_path");
  v.field("pretrained_path", &pretrained_path, "folder of a saved model or run");
  v.field("name_or_path", &name_or_path, "like pretrained_path, which goes first");
  v.section("config_overrides", config);
}

void TokenizerSection::visit(FieldVisitor& v) {
  v.field("name_or_path", &name_or_path,
          "\"byte\", a SentencePiece model or a folder with one; if absent, the one beside the data");
  v.field("save_with_model", &save_with_model, "copy the tokenizer into checkpoints");
}

void DataSection::visit(FieldVisitor& v) {
  v.field("data_dir", &data_dir, "folder of token shards");
  v.field("train_prefix", &train_prefix, "training shards are <data_dir>/<prefix>*.bin");
  v.field("val_prefix", &val_prefix, "validation shards, likewise");
  v.field("seq_length", &seq_length, "targets of a window (it holds one token more)", {.min = 1, .max = 1 << 24});
  v.field("mask_documents", &mask_documents,
          "attention and positions start anew after each end-of-document token, so that documents of a window do not "
          "see one "
          "another");
  v.field(
      "order", &order,
      "\"shuffled\": one permutation of all windows an epoch; \"authors\": the order and the targets (one fewer a "
      "window) of the SATFormer authors' loader",
      {.choices = {"shuffled", authors_order}});
  v.field("order_ranks", &order_ranks, "order \"authors\": processes of the run that is replayed",
          {.min = 1, .max = 4096});
  v.field("order_workers", &order_workers,
          "order \"authors\": loader processes of each of them; system.num_workers, if given, is the default",
          {.min = 0, .max = 256});
  v.field(
      "targets", &targets,
      "\"marked\": the loss is of the targets that count alone, where the data have marks of them; \"all\"; null: "
      "marked where there are marks",
      {.choices = {"all", "marked"}});
  struct {
    SyntheticOptions& options;
    void visit(FieldVisitor& visitor) { options.visit_difficulty(visitor); }
  } difficulty{synthetic};
  v.section("synthetic", difficulty);
}

void TrainingSection::visit(FieldVisitor& v) {
  v.field("batch_size", &batch_size, "windows of a micro-batch", {.min = 1, .max = 1 << 20});
  v.field("gradient_accumulation_steps", &gradient_accumulation_steps, "micro-batches of a step",
          {.min = 1, .max = 1 << 20});
  v.field("gradient_checkpointing", &gradient_checkpointing, "recompute layers in backward to save memory");
  v.field("learning_rate", &learning_rate, "peak rate", {.min = 0});
  v.field("min_lr", &min_lr, "rate at the end of the decay", {.min = 0});
  v.field("warmup_tokens", &warmup_tokens, "linear warmup, in billions of tokens", {.min = 0, .max = 1e9});
  v.field("max_tokens", &max_tokens, "token budget, in billions", {.min = 0, .max = 1e9, .open_min = true});
  v.field("lr_decay_style", &lr_decay_style, "shape of the decay", {.choices = {"cosine", "linear", "constant"}});
  v.field("weight_decay", &weight_decay, "decoupled weight decay", {.min = 0});
  v.field("beta1", &beta1, "AdamW, first moment", {.min = 0, .max = 1, .open_max = true});
  v.field("beta2", &beta2, "AdamW, second moment", {.min = 0, .max = 1, .open_max = true});
  v.field("adam_eps", &adam_eps, "AdamW, added to the denominator", {.min = 0, .open_min = true});
  v.field("grad_clip", &grad_clip, "largest global gradient norm; 0: none", {.min = 0});
  v.field("decay", &decay,
          "what weight decay acts on; \"all\" by default for configs in the authors' layout (source local_class)",
          {.choices = {"matrices", "all"}});
  v.field("gate_lr_scale", &gate_lr_scale, "factor on the rate of gate weights and biases; 0 freezes them",
          {.min = 0, .max = 1e4});
  v.field("scalar_lr_scale", &scalar_lr_scale,
          "factor on the rate of scalars (static gates and mixes, lambdas, depth averages, hyper-connections' static "
          "parts)",
          {.min = 0, .max = 1e4});
  v.field("gate_decay", &gate_decay, "weight decay of gates; null: as decay and weight_decay say", {.min = 0});
  v.field("scalar_decay", &scalar_decay, "weight decay of scalars, likewise", {.min = 0});
  v.field("train_only", &train_only,
          "patterns of the parameters to train, separated by commas (such as *value_residual_mixing*,model.norm.*); "
          "null: "
          "all. The others stay as they are");
  v.field("target_accuracy", &target_accuracy,
          "end the run at the first validation whose accuracy reaches this; null: never; needs data with marks",
          {.min = 0, .max = 1, .open_min = true});
  v.field(
      "dtype", &dtype,
      "computing type; weights and optimizer state stay float32, but for pure-bfloat16, which has no float32 masters",
      {.choices = {"float32", "bfloat16", pure_bfloat16}});
  v.field("rounding", &rounding, "how pure-bfloat16 stores updated weights and optimizer state",
          {.choices = {"nearest", "stochastic"}});
  v.field("zero", &zero,
          "1: with several ranks, each keeps and updates its share of the optimizer's state alone (ZeRO-1); 0: each "
          "keeps all of it",
          {.min = 0, .max = 1});
  v.section("spike", spike);
  v.field("compile_model", &compile_model, "torch.compile", unused);
  v.field("fused_adamw", &fused_adamw, "torch's fused AdamW", unused);
}

void CheckpointingSection::visit(FieldVisitor& v) {
  v.field("checkpoint_dir", &checkpoint_dir, "run folder");
  v.field("checkpoint_interval", &checkpoint_interval, "steps between checkpoints; 0: only at the end", {.min = 0});
  v.field("save_final_model", &save_final_model, "write final/ at the end");
  v.field("keep_last", &keep_last, "checkpoints to keep; 0: all", {.min = 0});
  v.field("async", &async,
          "write checkpoints while training goes on, from a copy in memory; what is saved is the same");
}

void LoggingSection::visit(FieldVisitor& v) {
  v.field("log_interval", &log_interval, "steps between lines of metrics.jsonl", {.min = 1});
  v.field("eval_interval", &eval_interval, "steps between validations; 0: only at the end", {.min = 0});
  v.field("eval_iters", &eval_iters, "a validation covers this times 64 windows", {.min = 1, .max = 1 << 30});
  v.field("sample_interval", &sample_interval, "steps between sample texts; 0: never", {.min = 0});
  v.field(
      "frozen_interval", &frozen_interval,
      "steps between looks for parameters that no longer change; 0: never; null: as log_interval with pure-bfloat16",
      {.min = 0});
  v.field(
      "gate_interval", &gate_interval,
      "steps between statistics of SATFormer's gates in metrics.jsonl, taken from the step's own forward; 0: never",
      {.min = 0});
  v.field("sample_prompt", &sample_prompt, "what sample texts continue");
  v.field("sample_tokens", &sample_tokens, "length of sample texts", {.min = 1, .max = 1 << 20});
  v.field("wandb_project", &wandb_project, "Weights & Biases project", unused);
  v.field("wandb_run_name", &wandb_run_name, "Weights & Biases run", unused);
}

void SystemSection::visit(FieldVisitor& v) {
  v.field("seed", &seed, "seed of initialisation and data order", {.min = 0});
  v.field("threads", &threads, "CPU threads; 0: OMP_NUM_THREADS, else the cores allowed", {.min = 0, .max = 1024});
  v.field("device", &device, "cpu, cuda or cuda:N");
  v.field("num_workers", &num_workers, "loader processes", unused);
  v.field("prefetch_factor", &prefetch_factor, "batches a loader process prepares", unused);
  v.field("pin_memory", &pin_memory, "pinned host memory", unused);
  v.field("persistent_workers", &persistent_workers, "loader processes outlive an epoch", unused);
}

void RunConfig::visit(FieldVisitor& v) {
  v.section("model", model);
  v.section("tokenizer", tokenizer);
  v.section("data", data);
  v.section("training", training);
  v.section("checkpointing", checkpointing);
  v.section("logging", logging);
  v.section("system", system);
}

std::int64_t RunConfig::windows_per_step() const {
  return training.batch_size * training.gradient_accumulation_steps;
}
std::int64_t RunConfig::tokens_per_step() const { return windows_per_step() * data.seq_length; }
std::int64_t RunConfig::total_steps() const { return billions(training.max_tokens) / tokens_per_step(); }
std::int64_t RunConfig::warmup_steps() const { return billions(training.warmup_tokens) / tokens_per_step(); }

std::string RunConfig::pretrained() const {
  if (!model.from_pretrained) return {};
  return model.pretrained_path ? *model.pretrained_path : model.name_or_path.value_or("");
}

void RunConfig::validate() const {
  if (checkpointing.checkpoint_dir.empty()) fail(ExitCode::config, "checkpointing.checkpoint_dir must not be empty");
  if (data.data_dir.empty()) fail(ExitCode::config, "data.data_dir must not be empty");
  model.config.validate();
  if (model.from_pretrained && pretrained().empty()) {
    fail(ExitCode::config,
         "model.from_pretrained is true, but neither model.pretrained_path nor model.name_or_path is set");
  }
  if (data.seq_length > model.config.max_position_embeddings) {
    fail(ExitCode::config, "data.seq_length = ", data.seq_length,
         " is more than max_position_embeddings = ", model.config.max_position_embeddings, " of the model");
  }
  if (training.min_lr > training.learning_rate) {
    fail(ExitCode::config, "training.min_lr = ", training.min_lr,
         " is more than training.learning_rate = ", training.learning_rate);
  }
  struct Decay {
    const char* key;
    double decay, rate;
  };
  const double rate = training.learning_rate;
  for (const Decay& d : {Decay{"weight_decay", training.weight_decay, rate},
                         Decay{"gate_decay", training.gate_decay.value_or(0), rate * training.gate_lr_scale},
                         Decay{"scalar_decay", training.scalar_decay.value_or(0), rate * training.scalar_lr_scale}}) {
    if (d.decay * d.rate < 1) continue;
    fail(ExitCode::config, "training.", d.key, " = ", d.decay, " at a rate of ", d.rate,
         " takes a parameter beyond zero in one step: their product must be below 1");
  }
  if (training.rounding != "nearest" && training.dtype != pure_bfloat16) {
    fail(ExitCode::config, "training.rounding = '", training.rounding, "' needs training.dtype = '", pure_bfloat16,
         "', not '", training.dtype, "': float32 weights are not rounded");
  }
  if (training.zero != 0 && training.rounding != "nearest") {
    fail(ExitCode::config, "training.zero = 1 needs training.rounding = 'nearest': the random bits of '",
         training.rounding, "' rounding are those of whole parameters");
  }
  if (data.order == authors_order && data.seq_length < 2) {
    fail(ExitCode::config, "data.order = '", authors_order,
         "' has data.seq_length - 1 targets in a window: data.seq_length must be at least 2");
  }
  if (static_cast<double>(windows_per_step()) * static_cast<double>(data.seq_length) > 9e15) {
    fail(ExitCode::config, "a step of batch_size ", training.batch_size, " x gradient_accumulation_steps ",
         training.gradient_accumulation_steps, " x seq_length ", data.seq_length, " tokens cannot be counted");
  }
  if (total_steps() < 1) {
    fail(ExitCode::config, "training.max_tokens = ", training.max_tokens, " billion (", billions(training.max_tokens),
         " tokens) is less than one step of ", tokens_per_step(), " tokens");
  }
  if (data.synthetic.task) {
    const SyntheticTask& task = synthetic_task(data.synthetic);
    if (data.order == authors_order) {
      fail(ExitCode::config, "data.order = '", authors_order, "' is of shards; data.synthetic.task = '", task.name,
           "' generates its windows");
    }
    if (data.mask_documents && !task.text) {
      fail(ExitCode::config, "data.mask_documents is true, but data.synthetic.task = '", task.name,
           "' makes no documents");
    }
  }
  if (data.train_prefix.starts_with(data.val_prefix) || data.val_prefix.starts_with(data.train_prefix)) {
    fail(ExitCode::config, "data.train_prefix '", data.train_prefix, "' and data.val_prefix '", data.val_prefix,
         "' must not begin with one another: shards are <prefix>*.bin, so one would hold the other's");
  }
}

RunSettings::RunSettings(const ConfigSources& sources)
    : config_(std::make_unique<RunConfig>()), binding_(std::make_unique<ConfigBinding>(*config_)) {
  if (!sources.file.empty()) binding_->apply_json(read_json_file(sources.file), sources.file);
  binding_->apply_environment(sources.environment);
  for (const std::string& assignment : sources.overrides) binding_->apply_override(assignment);

  RunConfig& config = *config_;
  const std::string prefix = "model.config_overrides.";
  if (!config.pretrained().empty()) take_from_pretrained(prefix);
  architecture_ = &architecture_by_name(config.model.class_name);
  const std::string implied = concat("model.class_name ", architecture_->class_name);
  binding_->imply(prefix + "residual_routing", architecture_->residual_routing, implied);
  binding_->imply(prefix + "value_path", architecture_->value_path, implied);
  if (config.model.source == "local_class" || config.model.module) {
    binding_->imply("training.decay", "all", "the authors' layout");
  }
  const std::string workers = "system.num_workers";
  const bool workers_count = config.data.order == authors_order && binding_->origin(workers) != "default" &&
                             binding_->imply("data.order_workers", config.system.num_workers,
                                             concat(workers, " of ", binding_->origin(workers)));
  config.data.synthetic.vocab_size = config.model.config.vocab_size;
  config.data.synthetic.seq_length = config.data.seq_length;
  config.validate();

  unused_ = binding_->unused();
  std::erase_if(unused_, [&](const std::string& key) { return binding_->origin(key) == config.pretrained(); });
  note_synthetic_keys();
  if (workers_count) std::erase(unused_, workers);
  if (config.logging.gate_interval > 0 && config.model.config.effective_value_path() != "satformer") {
    unused_.push_back("logging.gate_interval");
  }
  note_optimizer_keys();
  if (config.data.order != authors_order) {
    for (const char* key : {"data.order_ranks", "data.order_workers"}) leave_out(key);
  }
  for (const std::string& key : unread_model_keys(config.model.config)) leave_out(prefix + key);
}

// Class and model fields of the pretrained folder, where no source has set them. Error(config) for another class.
void RunSettings::take_from_pretrained(const std::string& prefix) {
  const std::string path = config_->pretrained();
  const Json pretrained = read_model_config(path);
  const auto classes = pretrained.find("architectures");
  if (classes != pretrained.end() && classes->is_array() && !classes->empty() && (*classes)[0].is_string()) {
    const auto name = (*classes)[0].get<std::string>();
    const bool told = !binding_->imply("model.class_name", name, path);
    const std::string& given = config_->model.class_name;
    if (told && architecture_by_name(given).name != architecture_by_name(name).name) {
      fail(ExitCode::config, "model.class_name is ", given, " (", binding_->origin("model.class_name"),
           "), but the pretrained model in '", path, "' is a ", name);
    }
  }
  const Json own = binding_->to_json()["model"]["config_overrides"];
  for (const Field& field : binding_->fields()) {
    if (field.path.rfind(prefix, 0) != 0) continue;
    const std::string key = field.path.substr(prefix.size());
    const auto theirs = pretrained.find(key);
    if (theirs == pretrained.end() || binding_->imply(field.path, *theirs, path)) continue;
    if (own.contains(key) && own[key] != *theirs) {
      changed_.push_back(concat(key, " is ", own[key].dump(), " (", binding_->origin(field.path),
                                "), the pretrained model's is ", theirs->dump()));
    }
  }
}

// A key that has no effect here: told where somebody gave it, and not written down.
void RunSettings::leave_out(const std::string& key) {
  other_keys_.push_back(key);
  const std::string origin = binding_->origin(key);
  if (origin != "default" && origin != config_->pretrained()) unused_.push_back(key);
}

// Rates and decays of kinds of parameters that the model has none of.
void RunSettings::note_optimizer_keys() {
  const std::pair<const char*, ParamKind> keys[] = {{"training.gate_lr_scale", ParamKind::gate},
                                                    {"training.gate_decay", ParamKind::gate},
                                                    {"training.scalar_lr_scale", ParamKind::scalar},
                                                    {"training.scalar_decay", ParamKind::scalar}};
  const auto shapes = make_model(*architecture_, config_->model.config, at::Device(at::kMeta));
  const auto& list = shapes->parameters().list();
  for (const auto& [key, kind] : keys) {
    if (std::none_of(list.begin(), list.end(), [kind = kind](const Parameter& p) { return p.kind == kind; })) {
      leave_out(key);
    }
  }
}

// Options that the task does not read, or where the windows would come from without one.
void RunSettings::note_synthetic_keys() {
  const SyntheticOptions& synthetic = config_->data.synthetic;
  const std::string prefix = "data.synthetic.";
  for (const Field& field : binding_->fields()) {
    if (!field.path.starts_with(prefix)) continue;
    const std::string key = field.path.substr(prefix.size());
    if (synthetic.task && task_reads(synthetic_task(synthetic), key)) continue;
    if (synthetic.task) {
      leave_out(field.path);
    } else if (binding_->origin(field.path) != "default") {
      unused_.push_back(field.path);
    }
  }
  if (!synthetic.task) return;
  for (const char* shards : {"data.data_dir", "data.train_prefix", "data.val_prefix"}) leave_out(shards);
}

std::string RunSettings::show() const { return binding_->show(); }

Json RunSettings::to_json() const {
  Json json = binding_->to_json();
  for (const Field& field : binding_->fields()) {
    if (field.rules.unused) erase_path(json, field.path);
  }
  for (const std::string& path : other_keys_) erase_path(json, path);
  if (!config_->data.synthetic.task) json["data"].erase("synthetic");
  json["model"]["class_name"] = architecture_->class_name;
  return json;
}

std::string describe_run_config() {
  RunConfig config;
  return ConfigBinding(config).describe();
}

}  // namespace satformer
