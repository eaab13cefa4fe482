// satformer train: trains a model from a configuration.
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/rank_session.h"
#include "distributed/agree.h"
#include "infer/generator.h"
#include "train/run_config.h"
#include "train/session.h"
#include "train/stop.h"

extern char** environ;

namespace satformer::cli {
namespace {

struct TrainArguments {
  std::string config, resume, device, dtype, window_log;
  std::string seed, threads, log_gates, on_spike, max_time;
  std::optional<std::int64_t> max_steps;
  double peak_tflops = 0;
  double timeout = default_rank_timeout;
  bool dry_run = false, overwrite = false, show_config = false;
};

ConfigSources sources_of(const TrainArguments& arguments, const std::vector<std::string>& overrides) {
  ConfigSources sources;
  sources.file = arguments.config;
  for (char** entry = environ; entry && *entry; ++entry) sources.environment.emplace_back(*entry);
  sources.overrides = overrides;
  if (!arguments.device.empty()) sources.overrides.push_back("system.device=" + arguments.device);
  if (!arguments.dtype.empty()) sources.overrides.push_back("training.dtype=" + arguments.dtype);
  if (!arguments.seed.empty()) sources.overrides.push_back("system.seed=" + arguments.seed);
  if (!arguments.log_gates.empty()) sources.overrides.push_back("logging.gate_interval=" + arguments.log_gates);
  if (!arguments.on_spike.empty()) sources.overrides.push_back("training.spike.action=" + arguments.on_spike);
  if (!arguments.threads.empty()) sources.overrides.push_back("system.threads=" + arguments.threads);
  return sources;
}

void note(std::string_view text) { std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data()); }

void note_settings(const RunSettings& settings) {
  for (const std::string& change : settings.changed_from_pretrained()) note(change);
  if (settings.unused().empty()) return;
  std::string list;
  for (const std::string& key : settings.unused()) list += (list.empty() ? "" : ", ") + key;
  note("unused here: " + list);
}

// Continues logging.sample_prompt with the model as it stands and keeps the texts in samples.jsonl.
class Sampler {
 public:
  explicit Sampler(const RunConfig& config) : config_(config), tokenizer_(run_tokenizer(config)) {
    if (!tokenizer_) return;
    for (const std::int32_t id : tokenizer_->encode(config.logging.sample_prompt)) prompt_.push_back(id);
    if (prompt_.empty()) prompt_.push_back(tokenizer_->eos_id());
    const auto needed = static_cast<std::int64_t>(prompt_.size()) + config.logging.sample_tokens;
    if (needed > config.model.config.max_position_embeddings) {
      fail(ExitCode::config, "logging.sample_prompt and logging.sample_tokens need ", needed,
           " positions, but max_position_embeddings is ", config.model.config.max_position_embeddings);
    }
  }
  bool ready() const { return tokenizer_ != nullptr; }

  std::string operator()(Model& model, std::int64_t step) {
    GenerateOptions options;
    options.max_new_tokens = config_.logging.sample_tokens;
    options.sampling.temperature = 0.8;
    options.sampling.seed = static_cast<std::uint64_t>(config_.system.seed + step);
    options.stop_token = tokenizer_->eos_id();
    const auto rows = generate(model, {prompt_}, options);
    std::vector<std::int32_t> ids(prompt_.begin(), prompt_.end());
    ids.insert(ids.end(), rows[0].begin(), rows[0].end());
    const std::string text = tokenizer_->decode(ids);
    if (!log_) {
      const RunFolder folder(config_.checkpointing.checkpoint_dir);
      log_ = std::make_unique<MetricsLog>(folder.samples_path(), step - 1);
    }
    log_->add(step, {{"prompt", config_.logging.sample_prompt}, {"text", text}});
    // Quoted and escaped: an untrained model may write anything to the terminal.
    return concat("step ", step, "  sample: ", Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  const RunConfig& config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::int64_t> prompt_;
  std::unique_ptr<MetricsLog> log_;
};

// The run as one of its ranks sees it; rank 0 alone speaks.
int train_on_rank(const RunSettings& settings, TrainRequest request, Communicator& ranks) {
  const bool first = ranks.rank() == 0;
  const auto say = [&](const std::string& text) {
    if (first) note(text);
  };
  if (first) {
    note_settings(settings);
    request.note = note;
  }
  if (ranks.size() > 1) request.ranks = &ranks;
  TrainHooks hooks;
  hooks.stop = StopSignals::requested;
  std::optional<Sampler> sampler;
  if (settings.config().logging.sample_interval > 0) {
    sampler.emplace(settings.config());
    if (sampler->ready()) {
      hooks.on_sample = [&](Model& model, std::int64_t step) { return (*sampler)(model, step); };
    } else {
      say("no tokenizer: no sample texts");
    }
  }
  const StopSignals signals;
  const TrainResult result = train(settings, request, hooks);
  if (result.stopped) {
    const ExitCode own = result.out_of_time ? ExitCode::out_of_time : StopSignals::exit_code();
    say(concat(result.out_of_time ? "time is up: " : "", "stopped after step ", result.step, "; saved ",
               result.checkpoint, "; go on with --resume auto"));
    return static_cast<int>(largest_of_ranks(ranks, static_cast<std::int64_t>(own)));
  }
  say(concat(result.complete ? "done: " : "stopped at --max-steps: ", result.step, " steps, ", result.checkpoint));
  return 0;
}

}  // namespace

int run_train(std::span<const std::string> arguments) {
  const TimeLimit::Clock::time_point start = TimeLimit::Clock::now();
  TrainArguments a;
  Options options("train", "Train a model from a configuration file and token shards.");
  options.add("--config,-c", a.config, "JSON configuration; without one, defaults and overrides alone");
  options.add("--resume", a.resume,
              "auto (newest checkpoint of the run folder, or a new run) or a checkpoint's path");
  options.flag("--overwrite", a.overwrite, "replace the checkpoints of another run in the run folder");
  options.flag("--dry-run", a.dry_run, "print parameters, FLOPs, memory, steps and disk, and stop");
  options.flag("--show-config", a.show_config, "print every value with its origin, and stop");
  options.add("--max-steps", a.max_steps, "save and stop after this step");
  options.add(
      "--max-time", a.max_time,
      "save and exit with code 75 before this much time has passed: seconds, 90s, 15m, 2h, 1d, MM:SS, HH:MM:SS "
      "or D-HH:MM:SS");
  options.add("--on-spike", a.on_spike,
              "none, skip or rewind: what a step does whose loss or gradient norm is far above those before it "
              "(training.spike.action)");
  options.add("--device", a.device, "cpu, cuda or cuda:N (system.device)");
  options.add("--dtype", a.dtype, "float32, bfloat16 or pure-bfloat16 (training.dtype)");
  options.add("--seed", a.seed, "seed (system.seed)");
  options.add("--threads", a.threads, "CPU threads (system.threads)");
  options.add("--log-gates", a.log_gates,
              "steps between statistics of gates in metrics.jsonl (logging.gate_interval)");
  options.add("--peak-tflops", a.peak_tflops, "the device's peak for MFU; without it a matrix product is timed");
  options.add("--timeout", a.timeout,
              "with several ranks: seconds until a rank that is stopped, stuck or missing is given up and named");
  options.add("--window-log", a.window_log, "append 'epoch shard offset' of every window trained on to this file");
  options.allow_overrides();
  options.footer("Configuration fields, as --section.key=value, SATFORMER_SECTION__KEY or in the file:\n" +
                 describe_run_config());
  if (!options.parse(arguments)) return 0;
  if (a.max_steps.value_or(1) < 1) fail(ExitCode::usage, "--max-steps must be at least 1, not ", *a.max_steps);
  if (!(a.peak_tflops >= 0) || std::isinf(a.peak_tflops)) {
    fail(ExitCode::usage, "--peak-tflops must be positive, not ", a.peak_tflops);
  }

  if (!(a.timeout >= 1) || std::isinf(a.timeout)) {
    fail(ExitCode::usage, "--timeout must be at least 1 second, not ", a.timeout);
  }

  const ConfigSources sources = sources_of(a, options.overrides());
  if (a.show_config) {
    std::fputs(RunSettings(sources).show().c_str(), stdout);
    return 0;
  }
  TrainRequest request;
  request.resume = a.resume;
  request.overwrite = a.overwrite;
  request.max_steps = a.max_steps.value_or(0);
  request.window_log = a.window_log;
  request.peak_tflops = a.peak_tflops;
  if (!a.max_time.empty()) {
    request.end_time = start + std::chrono::duration_cast<TimeLimit::Clock::duration>(
                                   std::chrono::duration<double>(parse_duration(a.max_time, "--max-time")));
  }
  request.versions = {{"satformer", SATFORMER_VERSION}, {"libtorch", TORCH_VERSION}};
  request.arguments = {arguments.begin(), arguments.end()};
  if (a.dry_run) {
    const RunSettings settings(sources);
    note_settings(settings);
    request.note = note;
    std::fputs(describe_run(settings, request).c_str(), stdout);
    return 0;
  }
  RankSession session(a.timeout);
  return session.run([&](Communicator& ranks) { return train_on_rank(RunSettings(sources), request, ranks); });
}

}  // namespace satformer::cli
