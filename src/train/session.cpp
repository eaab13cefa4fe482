#include "train/session.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "checkpoint/model_io.h"
#include "io/file.h"
#include "nn/device.h"
#include "train/estimate.h"

namespace satformer {
namespace fs = std::filesystem;
namespace {

// A run may ask for more threads than there are cores, to repeat another machine's sums, but not for so many that the
// machine stalls.
void check_threads(std::int64_t threads) {
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  const std::int64_t most = std::max<std::int64_t>(64, 4 * cores);
  if (threads > most) {
    fail(ExitCode::config, "system.threads = ", threads, " is more than ", most, ", the most for the ", cores,
         " cores that this process may use");
  }
}

std::shared_ptr<const TokenWindows> open_windows(const RunConfig& config, const std::string& prefix,
                                                 const Tokenizer* tokenizer, bool check_ids) {
  const auto shards = std::make_shared<TokenShards>(config.data.data_dir, prefix);
  const auto windows = std::make_shared<TokenWindows>(shards, config.data.seq_length);
  const std::string hash = shards->manifest_tokenizer_sha256();
  if (tokenizer && !hash.empty() && hash != tokenizer->sha256()) {
    fail(ExitCode::data, "the shards in '", config.data.data_dir, "' were made with another tokenizer (SHA-256 ",
         hash.substr(0, 12), "...) than tokenizer.name_or_path names (", tokenizer->sha256().substr(0, 12), "...)");
  }
  if (check_ids) shards->check_ids(config.model.config.vocab_size);
  return windows;
}

// Settings that must be those of the checkpoint for the run to go on as if unbroken. Model keys that only bound or
// label things may change.
bool must_agree(const std::string& path) {
  static const std::set<std::string> free_model = {"max_position_embeddings", "use_cache", "pad_token_id",
                                                   "bos_token_id", "eos_token_id"};
  static const std::set<std::string> fixed = {"/data/order",
                                              "/data/order_ranks",
                                              "/data/order_workers",
                                              "/data/seq_length",
                                              "/training/batch_size",
                                              "/training/gradient_accumulation_steps",
                                              "/training/learning_rate",
                                              "/training/min_lr",
                                              "/training/warmup_tokens",
                                              "/training/lr_decay_style",
                                              "/training/weight_decay",
                                              "/training/beta1",
                                              "/training/beta2",
                                              "/training/adam_eps",
                                              "/training/grad_clip",
                                              "/training/decay",
                                              "/training/dtype",
                                              "/system/seed"};
  const std::string overrides = "/model/config_overrides/";
  if (path.rfind(overrides, 0) == 0) return free_model.count(path.substr(overrides.size())) == 0;
  return fixed.count(path) != 0;
}

std::string dotted(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path.substr(1);
}

void check_same_run(const std::string& checkpoint, const RunSettings& settings, const TrainRequest& request) {
  const Json saved = checkpoint_run_config(checkpoint);
  const Json before = saved.flatten(), now = settings.to_json().flatten();
  const std::string class_path = "/model/class_name";
  const std::string old_class = before.value(class_path, std::string());
  if (old_class != settings.architecture().class_name) {
    fail(ExitCode::checkpoint, "checkpoint '", checkpoint, "' is of ",
         old_class.empty() ? "an unknown model" : old_class, ", but this run trains ",
         settings.architecture().class_name);
  }
  // A key that the checkpoint's program did not know yet had what is the default now.
  RunConfig untouched;
  const Json defaults = ConfigBinding(untouched).to_json().flatten();
  for (const auto& [path, value] : now.items()) {
    const auto it = before.find(path);
    const Json old = it == before.end() ? defaults.value(path, Json(nullptr)) : *it;
    if (old == value) continue;
    const std::string change = concat(dotted(path), " is ", value.dump(), ", the checkpoint has ", old.dump());
    if (must_agree(path)) {
      const bool model = path.rfind("/model/", 0) == 0;
      fail(model ? ExitCode::checkpoint : ExitCode::config, "cannot resume from '", checkpoint, "': ", change,
           model ? ""
                 : " (to go on with other settings, start a new run with model.from_pretrained=true and "
                   "model.pretrained_path)");
    }
    if (request.note) request.note(concat("changed since the checkpoint: ", change));
  }
}

// The checkpoint to go on from; empty for a new run.
std::string find_checkpoint(const RunFolder& folder, const TrainRequest& request) {
  const auto existing = folder.checkpoints();
  if (request.resume == "auto") return existing.empty() ? std::string() : existing.back().path;
  if (!request.resume.empty()) return resolve_checkpoint(request.resume);
  if (!existing.empty() && !request.overwrite) {
    fail(ExitCode::usage, "run folder '", folder.path(), "' already holds checkpoints up to step ",
         existing.back().step,
         "; use --resume auto to go on, --overwrite to replace them, or another checkpointing.checkpoint_dir");
  }
  return {};
}

void check_newer(const RunFolder& folder, const std::string& checkpoint, const TrainRequest& request) {
  const auto existing = folder.checkpoints();
  if (existing.empty() || request.overwrite || fs::equivalent(existing.back().path, checkpoint)) return;
  fail(ExitCode::usage, "run folder '", folder.path(), "' holds a checkpoint of step ", existing.back().step,
       ", which resuming from '", checkpoint,
       "' would replace; use --resume auto, --overwrite, or another checkpointing.checkpoint_dir");
}

void note_disk_space(const RunFolder& folder, const RunConfig& config, const Model& model,
                     const TrainRequest& request) {
  const double one = checkpoint_bytes(model), free = folder.free_bytes();
  const auto kept = static_cast<double>(std::max<std::int64_t>(config.checkpointing.keep_last, 1));
  const auto there = static_cast<double>(folder.checkpoints().size());
  const double needed = one * std::max(1.0, kept + 1 - there);
  if (free < needed && request.note) {
    request.note(concat("disk: ", human_bytes(free), " free in '", folder.path(), "', but ",
                        config.checkpointing.keep_last == 0 ? "every further checkpoint takes " : "checkpoints need ",
                        human_bytes(needed)));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> run_tokenizer(const RunConfig& config) {
  const auto& name = config.tokenizer.name_or_path;
  if (name && (*name == "byte" || fs::exists(*name))) return load_tokenizer(*name);
  for (const char* file : {"/tokenizer.model", "/tokenizer.json"}) {
    if (fs::exists(config.data.data_dir + file)) return load_tokenizer(config.data.data_dir);
  }
  return nullptr;
}

TrainResult train(const RunSettings& settings, const TrainRequest& request, const TrainHooks& hooks) {
  const RunConfig& config = settings.config();
  const auto note = [&](const std::string& text) {
    if (request.note) request.note(text);
  };
  check_threads(config.system.threads);
  set_num_threads(static_cast<int>(config.system.threads));
  const at::Device device = parse_device(config.system.device);

  const std::unique_ptr<Tokenizer> tokenizer = run_tokenizer(config);
  if (tokenizer && tokenizer->vocab_size() > config.model.config.vocab_size) {
    fail(ExitCode::config, "the tokenizer has ", tokenizer->vocab_size(),
         " ids, but model.config_overrides.vocab_size is ", config.model.config.vocab_size);
  }
  if (!tokenizer) {
    note(concat("tokenizer ", config.tokenizer.name_or_path ? concat("'", *config.tokenizer.name_or_path, "' ") : "",
                "is neither on this machine nor beside the data: checkpoints are saved without it"));
  }
  TrainResources r;
  r.train = open_windows(config, config.data.train_prefix, tokenizer.get(), false);
  r.validation = open_windows(config, config.data.val_prefix, tokenizer.get(), false);

  const RunFolder folder(config.checkpointing.checkpoint_dir);
  r.resume_from = find_checkpoint(folder, request);
  if (!r.resume_from.empty()) check_newer(folder, r.resume_from, request);
  folder.create();
  const RunLock lock(folder);
  folder.remove_leftovers();
  if (!r.resume_from.empty()) {
    check_same_run(r.resume_from, settings, request);
    r.state = read_training_state(r.resume_from);
    if (r.state.train_windows != r.train->size()) {
      fail(ExitCode::data, "cannot resume: the data now has ", r.train->size(), " training windows, the checkpoint '",
           r.resume_from, "' counts positions among ", r.state.train_windows);
    }
    verify_checkpoint(r.resume_from);
  }
  // Reads every id once.
  open_windows(config, config.data.train_prefix, nullptr, true);
  open_windows(config, config.data.val_prefix, nullptr, true);

  const std::unique_ptr<Model> model = make_model(settings.architecture(), config.model.config, device);
  if (r.resume_from.empty()) {
    if (const std::string path = config.pretrained(); !path.empty()) {
      load_weights(*model, weights_path(resolve_model_directory(path)));
    } else {
      model->parameters().initialise(static_cast<std::uint64_t>(config.system.seed));
    }
  }
  model->set_compute_dtype(config.training.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat);
  note_disk_space(folder, config, *model, request);

  r.settings = &settings;
  r.model = model.get();
  r.folder = &folder;
  r.tokenizer = tokenizer.get();
  r.max_steps = request.max_steps;
  r.window_log = request.window_log;
  r.quiet = request.quiet;
  if (request.peak_tflops > 0) {
    r.peak_flops = request.peak_tflops * 1e12;
    r.peak_name = "given";
  } else if (!request.quiet) {
    r.peak_flops = measure_peak_flops(device, model->compute_dtype());
    r.peak_name = "measured";
  }
  if (request.overwrite) folder.clear_after(r.resume_from.empty() ? -1 : r.state.step);
  if (r.resume_from.empty()) fs::remove(folder.samples_path());
  if (!r.resume_from.empty()) note(concat("resuming from ", r.resume_from, " at step ", r.state.step));
  if (!r.resume_from.empty() && r.state.step < config.total_steps() && fs::exists(folder.final_path())) {
    note(concat("'", folder.final_path(), "' is of an earlier end of this run until training ends again"));
  }
  write_file_atomic(folder.config_path(), settings.to_json().dump(2) + "\n");
  return Trainer(r, hooks).run();
}

}  // namespace satformer
