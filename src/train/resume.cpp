#include "train/resume.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace satformer {
namespace fs = std::filesystem;
namespace {

// Settings that must be those of the checkpoint for the run to go on as if unbroken. Model keys that only bound or
// label things may change.
bool must_agree(const std::string& path) {
  static const std::set<std::string> free_model = {"max_position_embeddings", "use_cache", "pad_token_id",
                                                   "bos_token_id", "eos_token_id"};
  static const std::set<std::string> fixed = {"/data/mask_documents",
                                              "/data/order",
                                              "/data/order_ranks",
                                              "/data/order_workers",
                                              "/data/seq_length",
                                              "/data/targets",
                                              "/data/synthetic/task",
                                              "/data/synthetic/pairs",
                                              "/data/synthetic/questions",
                                              "/data/synthetic/key_length",
                                              "/data/synthetic/value_length",
                                              "/data/synthetic/power",
                                              "/data/synthetic/examples",
                                              "/data/synthetic/example_seed",
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
                                              "/training/rounding",
                                              "/training/gate_lr_scale",
                                              "/training/scalar_lr_scale",
                                              "/training/gate_decay",
                                              "/training/scalar_decay",
                                              "/training/train_only",
                                              "/system/seed"};
  const std::string overrides = "/model/config_overrides/";
  if (path.rfind(overrides, 0) == 0) return free_model.count(path.substr(overrides.size())) == 0;
  return fixed.count(path) != 0;
}

// A step's windows may be cut otherwise into micro-batches, but their number stays.
void check_windows_per_step(const std::string& checkpoint, const Json& before, const RunConfig& now) {
  const auto old = [&](const char* path, std::int64_t value) {
    const auto it = before.find(path);
    return it != before.end() && it->is_number_integer() ? it->get<std::int64_t>() : value;
  };
  const TrainingSection defaults;
  const std::int64_t batch = old("/training/batch_size", defaults.batch_size);
  const std::int64_t accumulation =
      old("/training/gradient_accumulation_steps", defaults.gradient_accumulation_steps);
  if (batch * accumulation != now.windows_per_step()) {
    fail(
        ExitCode::config, "cannot resume from '", checkpoint,
        "': training.batch_size x gradient_accumulation_steps is ", now.training.batch_size, " x ",
        now.training.gradient_accumulation_steps, " = ", now.windows_per_step(),
        " windows a step, the checkpoint has ", batch, " x ", accumulation, " = ", batch * accumulation,
        " (to go on with other settings, start a new run with model.from_pretrained=true and model.pretrained_path)");
  }
  if (now.data.order == authors_order && batch != now.training.batch_size) {
    fail(ExitCode::config, "cannot resume from '", checkpoint, "': training.batch_size is ", now.training.batch_size,
         ", the checkpoint has ", batch, ", and data.order = '", authors_order, "' depends on it");
  }
}

void check_same_run(const std::string& checkpoint, const Json& saved, const RunSettings& settings,
                    const TrainRequest& request) {
  const Json before = saved.flatten(), now = settings.to_json().flatten();
  const std::string class_path = "/model/class_name";
  const std::string old_class = before.value(class_path, std::string());
  if (old_class != settings.architecture().class_name) {
    fail(ExitCode::checkpoint, "checkpoint '", checkpoint, "' is of ",
         old_class.empty() ? "an unknown model" : old_class, ", but this run trains ",
         settings.architecture().class_name);
  }
  check_windows_per_step(checkpoint, before, settings.config());
  // A key that the checkpoint's program did not know yet had what is the default now.
  RunConfig untouched;
  const Json defaults = ConfigBinding(untouched).to_json().flatten();
  for (const auto& [path, value] : now.items()) {
    const auto it = before.find(path);
    const Json old = it == before.end() ? defaults.value(path, Json(nullptr)) : *it;
    if (old == value) continue;
    const std::string change = concat(dotted_key(path), " is ", value.dump(), ", the checkpoint has ", old.dump());
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

bool is_whole(const std::string& checkpoint) {
  try {
    verify_checkpoint(checkpoint);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Runs `read` on a checkpoint; if it is damaged, the error also names the newest whole one before it.
void naming_older(const std::string& checkpoint, auto&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::checkpoint) throw;
    auto entries = RunFolder(fs::path(checkpoint).parent_path().parent_path().string()).checkpoints();
    std::reverse(entries.begin(), entries.end());
    bool older = false;
    for (const RunFolder::Entry& entry : entries) {
      if (std::exchange(older, older || fs::path(entry.path).filename() == fs::path(checkpoint).filename()) &&
          is_whole(entry.path)) {
        fail(error.code(), error.what(), "; the newest whole checkpoint before it is '", entry.path, "' (--resume ",
             entry.path, " --overwrite goes on from there)");
      }
    }
    throw;
  }
}

}  // namespace

ResumePoint find_resume_point(const RunSettings& settings, const TrainRequest& request) {
  const RunFolder folder(settings.config().checkpointing.checkpoint_dir);
  ResumePoint point;
  point.checkpoint = find_checkpoint(folder, request);
  if (point.checkpoint.empty()) return point;
  check_newer(folder, point.checkpoint, request);
  Json saved;
  naming_older(point.checkpoint, [&] {
    saved = checkpoint_run_config(point.checkpoint);
    point.state = read_training_state(point.checkpoint);
  });
  check_same_run(point.checkpoint, saved, settings, request);
  return point;
}

void verify_resume_point(const ResumePoint& point) {
  naming_older(point.checkpoint, [&] { verify_checkpoint(point.checkpoint); });
}

}  // namespace satformer
