#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/process_memory.h"
#include "checkpoint/file_hashes.h"
#include "checkpoint/model_io.h"
#include "distributed/agree.h"
#include "infer/window_loss_ranks.h"
#include "kernels/finite.h"
#include "train/estimate.h"
#include "train/loader.h"
#include "train/step.h"

namespace satformer {
namespace {

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::vector<NamedTensor> named(const std::vector<Optimizer::Moment>& moments) {
  std::vector<NamedTensor> list;
  for (auto& moment : moments) list.push_back({moment.name, moment.value});
  return list;
}

constexpr double slow_disk = 1e8;  // bytes a second, until a checkpoint was written

}  // namespace

OptimizerOptions optimizer_options(const TrainingSection& training) {
  OptimizerOptions options;
  options.beta1 = training.beta1;
  options.beta2 = training.beta2;
  options.eps = training.adam_eps;
  options.weight_decay = training.weight_decay;
  options.decay_all = training.decay == "all";
  options.gate_lr_scale = training.gate_lr_scale;
  options.scalar_lr_scale = training.scalar_lr_scale;
  options.gate_decay = training.gate_decay;
  options.scalar_decay = training.scalar_decay;
  options.grad_clip = training.grad_clip;
  options.rounding = training.rounding == "stochastic" ? Bf16Rounding::stochastic : Bf16Rounding::nearest;
  return options;
}

Schedule schedule_of(const RunConfig& config) {
  return {config.training.learning_rate, config.training.min_lr, config.warmup_steps(), config.total_steps(),
          decay_style(config.training.lr_decay_style)};
}

namespace {
OptimizerOptions run_optimizer_options(const RunConfig& config) {
  OptimizerOptions options = optimizer_options(config.training);
  options.seed = static_cast<std::uint64_t>(config.system.seed);
  return options;
}
}  // namespace

Trainer::Trainer(const TrainResources& resources, const TrainHooks& hooks)
    : r_(resources),
      hooks_(hooks),
      config_(r_.settings->config()),
      schedule_(schedule_of(config_)),
      state_(r_.state),
      flops_per_token_(training_flops(*r_.model, config_.data.seq_length).per_token()),
      writer_(*r_.folder, config_.checkpointing.keep_last, config_.checkpointing.async),
      spikes_(config_.training.spike),
      time_(r_.end_time) {
  const OptimizerOptions optimizer = run_optimizer_options(config_);
  if (r_.ranks) {
    rank_step_.emplace(*r_.model, *r_.ranks, optimizer, config_.training.zero != 0);
  } else {
    optimizer_.emplace(r_.model->parameters(), optimizer);
  }
  load();
  time_.expect_save(checkpoint_bytes(*r_.model, config_.training.dtype != pure_bfloat16) / slow_disk);
  spikes_.restore(state_.spikes);
  if (!r_.resume_from.empty()) {
    if (r_.resume_from == r_.folder->checkpoint_path(state_.step)) saved_step_ = state_.step;
    checkpoint_ = r_.resume_from;
  }
  state_.seed = config_.system.seed;
  state_.train_windows = r_.data.train->size();
  state_.train_data_sha256 = r_.train_data_sha256;
  state_.train_data_generator = r_.data.generator;
  if (!reached()) state_.reached_accuracy = 0;  // a higher target than before: the run goes on
  state_.warmup_steps = schedule_.warmup_steps;
  state_.total_steps = schedule_.total_steps;
  LoaderOptions options;
  options.batch_size = config_.training.batch_size;
  options.order = r_.data.order;
  options.targets = {.inner = config_.data.order == authors_order, .marked = r_.data.marked};
  options.position = state_.windows;
  if (r_.ranks) {
    const std::int64_t windows = config_.windows_per_step();
    const WindowShare share = share_of_rank(windows, r_.ranks->rank(), r_.ranks->size());
    options.share = StepShare{windows, share.begin, share.end};
  }
  if (writes()) options.window_log = r_.window_log;
  loader_ = std::make_unique<BatchLoader>(r_.data.train, options);
  if (writes()) {
    tracker_ = std::make_unique<RunTracker>(
        TrackerOptions{r_.folder->path(), state_.step, r_.settings->to_json(), r_.session});
  }
  frozen_interval_ = config_.logging.frozen_interval.value_or(
      config_.training.dtype == pure_bfloat16 ? config_.logging.log_interval : 0);
  if (frozen_interval_ > 0) frozen_.emplace(r_.model->parameters());
}

// Rank 0 alone reads; what it has read reaches the others.
void Trainer::load() {
  const bool resumed = !r_.resume_from.empty();
  const auto read = [&](const std::vector<NamedTensor>& moments) {
    load_checkpoint(r_.resume_from, *r_.model, moments);
  };
  if (optimizer_) {
    if (resumed) read(named(optimizer_->moments()));
    optimizer_->set_steps(state_.step);
    return;
  }
  if (resumed) rank_step_->load_moments(read);
  rank_step_->set_steps(state_.step);
  broadcast_parameters(r_.model->parameters(), *r_.ranks);
}

bool Trainer::stop_requested() {
  bool here = hooks_.stop && hooks_.stop();
  if (!here) here = out_of_time_ = out_of_time_ || time_.over(TimeLimit::Clock::now());
  return r_.ranks ? any_rank(*r_.ranks, here) : here;
}

void Trainer::track(std::int64_t step, const Json& values) {
  if (tracker_) tracker_->add(step, values);
}

double Trainer::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t Trainer::last_step() const {
  const std::int64_t budget = config_.total_steps();
  return r_.max_steps > 0 ? std::min(r_.max_steps, budget) : budget;
}

TrainResult Trainer::run() {
  const std::int64_t budget = config_.total_steps();
  const std::int64_t last = last_step();
  TrainResult result;
  const auto& logging = config_.logging;
  // A validation that a stop request cut short.
  if (state_.step > 0 && state_.step < budget && logging.eval_interval > 0 &&
      state_.step % logging.eval_interval == 0 && state_.validated_step < state_.step) {
    Json values = Json::object();
    if (run_validation(logging.eval_iters * windows_per_eval_iter, values)) track(state_.step, values);
  }
  while (state_.step < last && !result.stopped && !reached()) {
    result.stopped = stop_requested() || !train_step() || !finish_step();
  }
  if (saved_step_ != state_.step) save();
  note_saved(writer_.wait());
  if (!result.stopped && (state_.step >= budget || reached())) {
    Json values = Json::object();
    result.stopped = !run_validation(0, values);
    if (!result.stopped) {
      track(state_.step, values);
      result.validation = last_validation_;
      if (config_.checkpointing.save_final_model && writes()) save_final();
      result.complete = true;
    }
  }
  if (tracker_) {
    tracker_->sync();
    tracker_->finish(result.complete ? RunState::complete : RunState::stopped);
  }
  result.out_of_time = out_of_time_;
  result.step = state_.step;
  result.checkpoint = checkpoint_;
  return result;
}

bool Trainer::train_step() {
  const double start = now();
  clock_.begin();
  if (hooks_.on_step) hooks_.on_step(*r_.model, state_.step);
  const std::int64_t batches_per_step =
      rank_step_ ? loader_->batches_per_step() : config_.training.gradient_accumulation_steps;
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < batches_per_step; ++i) batches.push_back(loader_->next());
  clock_.end(StepPart::data);
  ForwardOptions options;
  options.recompute_layers = config_.training.gradient_checkpointing;
  options.document_end = r_.document_end;
  gates_.reset();
  if (const std::int64_t interval = config_.logging.gate_interval;
      interval > 0 && (state_.step + 1) % interval == 0) {
    options.observer = &gates_.emplace(saturation_level(config_.model.config));
  }
  rank_step_ ? rank_step_->clear_gradients() : optimizer_->clear_gradients();
  const StepLoss step = rank_step_ ? rank_step_->accumulate(batches, options, &clock_)
                                   : accumulate_gradients(
                                         *r_.model, batches, options, [this] { return stop_requested(); }, &clock_);
  if (step.stopped) {
    optimizer_->clear_gradients();
    return false;
  }
  const double norm = rank_step_ ? rank_step_->gradient_norm() : optimizer_->gradient_norm();
  check_finite(step.loss, norm);
  time_.saw_pass((now() - start) / static_cast<double>(std::max<std::size_t>(1, batches.size())));
  // Of marked data too, the budget counts every token that is read.
  const std::int64_t tokens = r_.data.marked ? config_.tokens_per_step() : step.targets;
  if (spikes_.look(step.loss, norm)) {
    spikes_.count(state_.step + 1, step.loss, norm);
    rank_step_ ? rank_step_->clear_gradients() : optimizer_->clear_gradients();
    if (spikes_.rewinds() && !checkpoint_.empty()) {
      rewind_before_spike(step.loss, norm);
    } else {
      skip_spike(step.loss, norm, tokens);
    }
    return true;
  }
  const double lr = schedule_.rate(state_.step);
  if (rank_step_) {
    rank_step_->update(lr, norm, &clock_);
  } else {
    optimizer_->step(lr, norm);
    clock_.end(StepPart::optimizer);
  }
  clock_.end_step();
  state_.step += 1;
  state_.windows = loader_->position();
  state_.tokens += tokens;
  state_.loss_sum += step.loss;
  state_.loss_steps += 1;
  last_lr_ = lr;
  last_norm_ = norm;
  last_loss_ = step.loss;
  const double seconds = now() - start;
  state_.seconds += seconds;
  busy_seconds_ += seconds;
  busy_tokens_ += tokens;
  rate_ = static_cast<double>(busy_tokens_) / busy_seconds_;
  report_step(lr, norm);
  return true;
}

void Trainer::check_finite(double loss, double norm) {
  if (std::isfinite(loss) && std::isfinite(norm)) return;
  std::string where;
  if (rank_step_) {
    where = rank_step_->non_finite_sources();
  } else {
    for (const std::string& name : optimizer_->non_finite_gradients(3)) where += (where.empty() ? "" : ", ") + name;
    if (!where.empty()) where = "not finite in " + where;
  }
  fail(ExitCode::non_finite, "step ", state_.step + 1, ": loss ", loss, ", gradient norm ", norm,
       where.empty() ? "" : concat(" (", where, ")"), "; training stopped before the update. ",
       checkpoint_.empty() ? std::string("No checkpoint was written yet")
                           : concat("The last checkpoint, '", checkpoint_, "', is finite"),
       "; a lower learning_rate or a longer warmup may help");
}

void Trainer::report_step(double lr, double norm) {
  if (r_.quiet) return;
  const std::int64_t budget = config_.total_steps();
  const double left =
      static_cast<double>(last_step() - state_.step) * static_cast<double>(config_.tokens_per_step()) / rate_;
  std::string mfu;
  if (r_.peak_flops > 0) {
    mfu = concat("  MFU ", format("%.1f", 100.0 * rate_ * flops_per_token_ / r_.peak_flops), "% of ",
                 human_count(r_.peak_flops), "FLOP/s ", r_.peak_name);
  }
  progress_.update(concat("step ", state_.step, "/", budget, "  loss ", format("%.4f", last_loss_), "  lr ",
                          format("%.2e", lr), "  grad ", format("%.3f", norm), "  ", human_count(rate_), " tok/s",
                          mfu, "  left ", human_duration(left)));
}

bool Trainer::finish_step() {
  note_saved(writer_.take());
  if (std::exchange(rewound_, false)) return true;  // what is due at the checkpoint's step was done
  const std::int64_t step = state_.step, budget = config_.total_steps();
  const auto due = [&](std::int64_t interval) { return interval > 0 && step % interval == 0; };
  Json values = std::exchange(step_values_, Json::object());
  if (due(config_.logging.log_interval) || step == budget) {
    values["progress/tokens_B"] = static_cast<double>(state_.tokens) / 1e9;
    values["progress/seconds"] = state_.seconds;
    if (state_.loss_steps > 0) values["train/loss"] = state_.loss_sum / static_cast<double>(state_.loss_steps);
    values["train/lr"] = last_lr_;
    values["train/grad_norm"] = last_norm_;
    add_system_figures(values);
    if (const auto bounds = spikes_.bounds()) {
      values["guard/loss_bound"] = bounds->loss;
      values["guard/norm_bound"] = bounds->norm;
    }
    state_.loss_sum = 0;
    state_.loss_steps = 0;
    busy_seconds_ = 0;
    busy_tokens_ = 0;
    clock_.clear();
  }
  if (frozen_ && due(frozen_interval_)) look_for_frozen(values);
  add_gates(values);
  // The last step is validated on the full set instead, after its checkpoint.
  bool going = true;
  if (due(config_.logging.eval_interval) && step < budget) {
    going = run_validation(config_.logging.eval_iters * windows_per_eval_iter, values);
  }
  if (!values.empty()) track(step, values);
  if (!going) return false;
  if (hooks_.on_sample && writes() && due(config_.logging.sample_interval)) {
    std::optional<LongWork> sampling;
    if (r_.ranks) sampling.emplace(*r_.ranks);
    const std::string text = hooks_.on_sample(*r_.model, step);
    if (!r_.quiet) progress_.print(text);
  }
  if (due(config_.checkpointing.checkpoint_interval)) save();
  return true;
}

void Trainer::add_system_figures(Json& values) const {
  values["perf/tokens_per_sec"] = rate_;
  if (r_.peak_flops > 0) values["perf/mfu"] = rate_ * flops_per_token_ / r_.peak_flops;
  if (clock_.steps() > 0) {
    for (std::size_t i = 0; i < step_part_names.size(); ++i) {
      const auto part = static_cast<StepPart>(i);
      if (part == StepPart::communication && !r_.ranks) continue;
      values[concat("perf/step_seconds/", step_part_names[i])] = clock_.mean(part);
    }
  }
  if (const double bytes = peak_resident_bytes(); bytes > 0) values["perf/peak_memory_bytes"] = bytes;
}

void Trainer::look_for_frozen(Json& values) {
  const FrozenParameters::Look look = frozen_->look();
  values["train/still_share"] = look.still_share;
  values["train/frozen"] = look.names;
  if (look.fresh.empty() || r_.quiet) return;
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(look.fresh.size(), 4); ++i) {
    names += (i > 0 ? ", " : "") + look.fresh[i];
  }
  progress_.print(concat("step ", state_.step, "  unchanged for ", frozen_interval_, " steps despite gradients: ",
                         names, look.fresh.size() > 4 ? concat(" and ", look.fresh.size() - 4, " more") : ""));
}

void Trainer::add_gates(Json& values) {
  if (!gates_) return;
  for (const std::int64_t layer : gates_->layers()) {
    const std::vector<std::int64_t> sources = gates_->sources(layer);
    for (const std::int64_t source : sources) {
      const HeadGates all = gates_->layer(layer, source);
      const std::vector<HeadGates> heads = gates_->heads(layer, source);
      const std::string prefix =
          concat("gates/layer_", layer, sources.size() > 1 ? concat("_source_", source) : std::string(), "/");
      values[prefix + "mean"] = all.mean;
      values[prefix + "zero_share"] = all.zero_share;
      values[prefix + "saturated_share"] = all.saturated_share;
      values[prefix + "dead_heads"] =
          std::count_if(heads.begin(), heads.end(), [](const HeadGates& h) { return h.zero_share == 1; });
    }
  }
  gates_.reset();
}

bool Trainer::run_validation(std::int64_t max_windows, Json& values) {
  WindowLossOptions options;
  options.batch_size = config_.training.batch_size;
  options.max_windows = max_windows;
  options.document_end = r_.document_end;
  options.marked = r_.data.marked;
  bool stopped = false;
  options.progress = [&](const WindowLoss& so_far, std::int64_t all) {
    if (!r_.quiet) {
      progress_.update(concat("step ", state_.step, "  validating ", so_far.windows, "/", all, " windows"));
    }
    stopped = so_far.windows < all && hooks_.stop && hooks_.stop();
    return !stopped;
  };
  const WindowLoss v = r_.ranks ? window_loss_over_ranks(*r_.model, *r_.data.validation, options, *r_.ranks, stopped)
                                : window_loss(*r_.model, *r_.data.validation, options);
  if (stopped) return false;
  last_validation_ = v;
  state_.validated_step = state_.step;
  values["val/loss"] = v.mean();
  values["val/perplexity"] = std::exp(v.mean());
  values["val/windows"] = v.windows;
  std::string line = concat("step ", state_.step, "  validation loss ", format("%.4f", v.mean()), "  perplexity ",
                            format("%.2f", std::exp(v.mean())));
  if (r_.data.validation->has_marks()) report_accuracy(values, line);
  if (!r_.quiet) progress_.print(concat(line, "  (", v.windows, " windows)"));
  return true;
}

void Trainer::report_accuracy(Json& values, std::string& line) {
  const KindAccuracy& accuracy = last_validation_.accuracy;
  const auto percent = [](const Accuracy& a) { return format("%.1f", 100 * a.value()) + "%"; };
  values["progress/seconds"] = state_.seconds;
  values["val/accuracy"] = accuracy.all().value();
  line += "  accuracy " + percent(accuracy.all());
  for (std::size_t kind = 0; kind < num_token_kinds; ++kind) {
    const Accuracy& of_kind = accuracy.kinds[kind];
    if (of_kind.targets == 0) continue;
    values[concat("val/accuracy/", token_kind_names[kind])] = of_kind.value();
    if (of_kind.targets < accuracy.all().targets) line += concat(" ", token_kind_names[kind], " ", percent(of_kind));
  }
  if (config_.training.target_accuracy && accuracy.all().value() >= *config_.training.target_accuracy && !reached()) {
    state_.reached_accuracy = accuracy.all().value();
    line += concat("  target ", format("%.1f", 100 * *config_.training.target_accuracy), "% reached");
  }
  if (reached()) values["progress/target_reached"] = true;
}

bool Trainer::reached() const {
  return config_.training.target_accuracy && state_.reached_accuracy >= *config_.training.target_accuracy;
}

void Trainer::save() {
  std::vector<NamedTensor> moments = named(rank_step_ ? rank_step_->gather_moments() : optimizer_->moments());
  saved_step_ = state_.step;
  if (!writes()) {
    checkpoint_ = r_.folder->checkpoint_path(state_.step);
    return;
  }
  std::optional<LongWork> saving;
  if (r_.ranks) saving.emplace(*r_.ranks);
  for (const Parameter& p : r_.model->parameters().list()) {
    if (all_finite(p.value.detach())) continue;
    fail(ExitCode::non_finite, "step ", state_.step, ": parameter '", p.name,
         "' is no longer finite; nothing was saved. The last checkpoint is ",
         checkpoint_.empty() ? std::string("missing: none was written yet") : concat("'", checkpoint_, "'"));
  }
  CheckpointParts parts;
  parts.model = r_.model;
  parts.optimizer = std::move(moments);
  for (const NamedTensor& moment : parts.optimizer) {
    if (!all_finite(moment.value)) {
      fail(ExitCode::non_finite, "step ", state_.step, ": optimizer state '", moment.name,
           "' is no longer finite; nothing was saved");
    }
  }
  parts.state = state_;
  parts.state.spikes = spikes_.state();
  parts.run_config = r_.settings->to_json().dump(2) + "\n";
  if (config_.tokenizer.save_with_model && r_.tokenizer) {
    parts.save_tokenizer = [this](const std::string& directory) { r_.tokenizer->save(directory); };
  }
  tracker_->sync();
  const double start = now();
  writer_.save(std::move(parts));
  time_.saw_save(now() - start);
  note_saved(writer_.take());
}

void Trainer::note_saved(const std::optional<CheckpointWriter::Saved>& saved) {
  if (!saved) return;
  checkpoint_ = saved->path;
  time_.saw_save(saved->seconds);
  if (!r_.quiet) progress_.print(concat("saved ", checkpoint_, " in ", human_duration(saved->seconds)));
}

void Trainer::skip_spike(double loss, double norm, std::int64_t tokens) {
  state_.step += 1;
  state_.windows = loader_->position();
  state_.tokens += tokens;
  rank_step_ ? rank_step_->set_steps(state_.step) : optimizer_->set_steps(state_.step);
  const auto bounds = spikes_.bounds();
  step_values_ = {{"guard/skipped", 1},
                  {"guard/loss", loss},
                  {"guard/norm", norm},
                  {"guard/loss_bound", bounds->loss},
                  {"guard/norm_bound", bounds->norm}};
  if (r_.quiet) return;
  progress_.print(concat("step ", state_.step, "  spike: loss ", format("%.4f", loss), " (bound ",
                         format("%.4f", bounds->loss), "), gradient norm ", format("%.3f", norm), " (bound ",
                         format("%.3f", bounds->norm), "); its update was skipped"));
}

void Trainer::rewind_before_spike(double loss, double norm) {
  const std::int64_t spike = state_.step + 1, windows = loader_->position();
  note_saved(writer_.wait());
  verify_checkpoint(checkpoint_);
  const auto bounds = spikes_.bounds();
  state_ = read_training_state(checkpoint_);
  load_checkpoint(checkpoint_, *r_.model, named(optimizer_->moments()));
  optimizer_->set_steps(state_.step);
  const std::int64_t skipped = windows - state_.windows;
  state_.windows = windows;
  spikes_.restore(state_.spikes, true);
  saved_step_ = state_.step;
  rewound_ = true;
  busy_seconds_ = 0;
  busy_tokens_ = 0;
  if (frozen_) frozen_.emplace(r_.model->parameters());
  Json session = r_.session;
  session["rewound"] = {{"spike_step", spike},
                        {"loss", loss},
                        {"norm", norm},
                        {"loss_bound", bounds->loss},
                        {"norm_bound", bounds->norm},
                        {"windows_left_out", skipped}};
  tracker_.reset();  // its last page goes before the next one's
  tracker_ =
      std::make_unique<RunTracker>(TrackerOptions{r_.folder->path(), state_.step, r_.settings->to_json(), session});
  if (r_.quiet) return;
  progress_.print(concat("step ", spike, "  spike: loss ", format("%.4f", loss), " (bound ",
                         format("%.4f", bounds->loss), "), gradient norm ", format("%.3f", norm), " (bound ",
                         format("%.3f", bounds->norm), "); back to ", checkpoint_, ", ", skipped,
                         " windows are left out"));
}

void Trainer::save_final() const {
  std::optional<LongWork> saving;
  if (r_.ranks) saving.emplace(*r_.ranks);
  r_.folder->replace_folder(r_.folder->final_path(), [&](const std::string& directory) {
    const std::string weights = save_model(*r_.model, directory);
    write_file_atomic(directory + "/run_config.json", r_.settings->to_json().dump(2) + "\n");
    if (config_.tokenizer.save_with_model && r_.tokenizer) r_.tokenizer->save(directory);
    const Json record = {{"step", state_.step}, {"tokens", state_.tokens}, {"val/loss", last_validation_.mean()}};
    write_hash_record(directory, RunFolder::final_record, record, {{"model.safetensors", weights}});
  });
}

}  // namespace satformer
