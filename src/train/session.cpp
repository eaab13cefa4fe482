#include "train/session.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/count_of.h"
#include "checkpoint/model_io.h"
#include "distributed/ranks.h"
#include "io/file.h"
#include "io/shards.h"
#include "nn/device.h"
#include "train/estimate.h"
#include "train/resume.h"
#include "train/run_data.h"
#include "train/sharing.h"
#include "train/train_only.h"

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

std::string describe_ranks(const Communicator& ranks, const RunConfig& config) {
  const std::int64_t windows = config.windows_per_step(), size = ranks.size();
  const std::string share =
      windows % size == 0 ? concat(windows / size) : concat(windows / size, " or ", windows / size + 1);
  return concat(size, " ranks through ", ranks.engine(), ", ", count_of(num_threads(), "thread"), " each; of the ",
                windows, " windows of a step each takes ", share,
                config.training.zero != 0 ? "; optimizer state sharded (ZeRO-1)" : "");
}

// The id that ends documents: the tokenizer's, else the model's. Error(data) if the training shards have none.
std::int64_t document_end(const RunConfig& config, const Tokenizer* tokenizer, const auto& note) {
  const std::int64_t of_model = config.model.config.eos_token_id;
  const std::int64_t end = tokenizer ? tokenizer->eos_id() : of_model;
  if (end != of_model) {
    note(concat("documents end with id ", end, ", the tokenizer's, not the model's eos_token_id ", of_model));
  }
  if (!config.data.synthetic.task && !TokenShards(config.data.data_dir, config.data.train_prefix).contains(end)) {
    fail(ExitCode::data, "data.mask_documents is true, but id ", end, ", which ends a document, is nowhere in '",
         config.data.data_dir, "/", config.data.train_prefix, "*.bin'");
  }
  return end;
}

void note_disk_space(const RunFolder& folder, const RunConfig& config, const Model& model,
                     const TrainRequest& request) {
  const double one = checkpoint_bytes(model, config.training.dtype != pure_bfloat16), free = folder.free_bytes();
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
  if (!data_is_text(config)) return nullptr;
  const auto& name = config.tokenizer.name_or_path;
  if (name && (*name == "byte" || fs::exists(*name))) return load_tokenizer(*name);
  if (config.data.synthetic.task) return nullptr;
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
  const std::unique_ptr<Communicator> alone = make_one_process();
  Communicator& ranks = request.ranks ? *request.ranks : *alone;
  const bool first = ranks.rank() == 0;  // it alone touches the run folder
  check_ranks(ranks, config);
  check_threads(config.system.threads);
  set_num_threads(threads_of_rank(config.system.threads, ranks));
  const at::Device device = parse_device(device_of_rank(config.system.device, ranks));
  if (device.is_cuda() && ranks.size() > 1) ranks.use_gpu(device);

  const std::unique_ptr<Tokenizer> tokenizer = run_tokenizer(config);
  if (tokenizer && tokenizer->vocab_size() > config.model.config.vocab_size) {
    fail(ExitCode::config, "the tokenizer has ", tokenizer->vocab_size(),
         " ids, but model.config_overrides.vocab_size is ", config.model.config.vocab_size);
  }
  TrainResources r;
  r.data = open_run_data(config, tokenizer.get());
  if (!tokenizer && r.data.text) {
    note(concat("tokenizer ", config.tokenizer.name_or_path ? concat("'", *config.tokenizer.name_or_path, "' ") : "",
                "is neither on this machine nor beside the data: checkpoints are saved without it"));
  }

  const RunFolder folder(config.checkpointing.checkpoint_dir);
  ResumePoint start;
  if (first) start = find_resume_point(settings, request);
  share_resume_point(ranks, start);
  r.resume_from = start.checkpoint;
  r.state = start.state;
  if (!r.resume_from.empty() && r.state.train_windows != r.data.train->size()) {
    fail(ExitCode::data, "cannot resume: the data now has ", r.data.train->size(),
         " training windows, the checkpoint '", r.resume_from, "' counts positions among ", r.state.train_windows);
  }
  if (first && !request.window_log.empty()) AppendFile(request.window_log).append("");
  // What follows reads all data once, before anything is written into the run folder.
  {
    const LongWork reading(ranks);
    r.train_data_sha256 = check_run_data(config);
  }
  check_same_run_on_ranks(ranks, {.settings = &settings,
                                  .version = request.versions.dump(),
                                  .max_steps = request.max_steps,
                                  .train_data_sha256 = r.train_data_sha256,
                                  .data_generator = r.data.generator,
                                  .train_windows = r.data.train->size(),
                                  .validation_windows = r.data.validation->size()});
  if (!r.resume_from.empty() && r.state.train_data_generator != r.data.generator) {
    const auto shown = [](const std::string& generator) { return generator.empty() ? "shards" : generator; };
    fail(ExitCode::data, "cannot resume: the training data is ", shown(r.data.generator), ", the checkpoint '",
         r.resume_from, "' was trained on ", shown(r.state.train_data_generator));
  }
  if (!r.state.train_data_sha256.empty() && r.state.train_data_sha256 != r.train_data_sha256) {
    fail(ExitCode::data, "cannot resume: the training shards in '", config.data.data_dir,
         "' are not those that the checkpoint '", r.resume_from, "' was trained on (their SHA-256 differs)");
  }
  std::optional<RunLock> lock;
  if (first) {
    const LongWork verifying(ranks);
    folder.create();
    lock.emplace(folder);
    folder.remove_leftovers();
    TrainRequest again = request;
    again.note = {};
    if (find_resume_point(settings, again).checkpoint != r.resume_from) {
      fail(ExitCode::system, "another process trained in '", folder.path(), "' meanwhile; start again");
    }
    if (!r.resume_from.empty()) verify_resume_point(start);
  }
  ranks.barrier();

  std::optional<LongWork> preparing(std::in_place, ranks);
  const std::unique_ptr<Model> model = make_model(settings.architecture(), config.model.config, device);
  if (r.resume_from.empty()) {
    if (const std::string path = config.pretrained(); !path.empty()) {
      load_weights(*model, weights_path(resolve_model_directory(path)));
    } else {
      model->parameters().initialise(static_cast<std::uint64_t>(config.system.seed));
    }
  }
  if (config.training.dtype == pure_bfloat16) model->parameters().to(at::kBFloat16);
  if (config.training.train_only) {
    const std::int64_t trained = train_only(model->parameters(), *config.training.train_only);
    if (!request.quiet) note(concat("training ", trained, " of ", model->parameters().count(), " parameters"));
  }
  model->set_compute_dtype(config.training.dtype == "float32" ? at::kFloat : at::kBFloat16);
  if (first && config.warmup_steps() > 0 && config.warmup_steps() >= config.total_steps()) {
    note(concat("warmup: the ", config.warmup_steps(),
                " steps of training.warmup_tokens are not fewer than the run's ", config.total_steps(),
                ", so that the rate never reaches ", config.training.learning_rate));
  }
  if (first) note_disk_space(folder, config, *model, request);
  const ModelConfig& c = config.model.config;
  if (first && c.effective_value_path() != "own" && c.active_value_layers() == 0) {
    note(concat("value_path '", c.value_path, "' acts in no layer: of ", c.num_hidden_layers,
                " layers, value_residual_last_k, value_layers and value_sources leave none"));
  }

  r.settings = &settings;
  r.model = model.get();
  r.folder = &folder;
  r.tokenizer = tokenizer.get();
  r.max_steps = request.max_steps;
  r.window_log = request.window_log;
  r.end_time = request.end_time;
  r.session = describe_session(request.versions, request.arguments);
  if (config.data.mask_documents) {
    r.document_end = document_end(config, tokenizer.get(), note);
  }
  r.quiet = request.quiet || !first;
  r.ranks = ranks.size() > 1 ? &ranks : nullptr;
  if (request.peak_tflops > 0) {
    r.peak_flops = request.peak_tflops * 1e12;
    r.peak_name = "given";
  } else if (!request.quiet) {
    r.peak_flops = measure_peak_flops(device, model->compute_dtype());
    r.peak_name = "measured";
  }
  r.peak_flops *= ranks.size();
  preparing.reset();
  if (!first) return Trainer(r, hooks).run();
  if (ranks.size() > 1) note(describe_ranks(ranks, config));
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
