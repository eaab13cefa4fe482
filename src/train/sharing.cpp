#include "train/sharing.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace satformer {
namespace {

// Keys that each rank may have for itself: where it runs and writes.
bool of_one_rank(const std::string& path) {
  return path.starts_with("/system/threads") || path.starts_with("/system/device") ||
         path.starts_with("/checkpointing/checkpoint_dir") || path.starts_with("/logging/wandb") ||
         path.starts_with("/data/data_dir") || path.starts_with("/tokenizer/name_or_path") ||
         path.starts_with("/model/pretrained_path") || path.starts_with("/model/name_or_path");
}

}  // namespace

void check_same_run_on_ranks(Communicator& ranks, const RankContract& own) {
  if (ranks.size() == 1) return;
  const Json config = own.settings->to_json().flatten();
  Json mine = {{"config", config},
               {"version", own.version},
               {"max_steps", own.max_steps},
               {"train_data_sha256", own.train_data_sha256},
               {"data_generator", own.data_generator},
               {"train_windows", own.train_windows},
               {"validation_windows", own.validation_windows}};
  const Json first = Json::parse(ranks.broadcast_text(mine.dump(), 0));
  std::string difference;
  ExitCode code = ExitCode::config;
  const auto differs = [&](const std::string& name, const Json& here, const Json& there) {
    if (difference.empty() && here != there) {
      difference = concat(name, " is ", here.dump(), " here and ", there.dump(), " on rank 0");
    }
  };
  differs("the version of satformer", mine["version"], first["version"]);
  for (const auto& [path, value] : config.items()) {
    if (!of_one_rank(path)) differs(dotted_key(path), value, first["config"].value(path, Json(nullptr)));
  }
  for (const auto& [path, value] : first["config"].items()) {
    if (!of_one_rank(path)) differs(dotted_key(path), config.value(path, Json(nullptr)), value);
  }
  differs("--max-steps", mine["max_steps"], first["max_steps"]);
  if (difference.empty()) {
    code = ExitCode::data;
    differs("the number of training windows", mine["train_windows"], first["train_windows"]);
    differs("the number of validation windows", mine["validation_windows"], first["validation_windows"]);
    differs("the SHA-256 of the training shards", mine["train_data_sha256"], first["train_data_sha256"]);
    differs("the generated data", mine["data_generator"], first["data_generator"]);
  }
  if (!difference.empty()) fail(code, "the ranks are not of one run: ", difference);
}

void check_ranks(Communicator& ranks, const RunConfig& config) {
  if (ranks.size() == 1) return;
  if (config.windows_per_step() < ranks.size()) {
    fail(ExitCode::config, "a step has ", config.windows_per_step(), " windows (training.batch_size x ",
         "gradient_accumulation_steps), too few for ", ranks.size(), " ranks");
  }
  if (config.training.spike.action == "rewind") {
    fail(ExitCode::config, "training.spike.action = rewind is for one process; several ranks can skip");
  }
}

void share_resume_point(Communicator& ranks, ResumePoint& point) {
  if (ranks.size() == 1) return;
  TrainingState& s = point.state;
  const auto exchange = [&](const Json& shared) {
    point.checkpoint = shared["checkpoint"].get<std::string>();
    s.step = shared["step"].get<std::int64_t>();
    s.windows = shared["windows"].get<std::int64_t>();
    s.tokens = shared["tokens"].get<std::int64_t>();
    s.validated_step = shared["validated_step"].get<std::int64_t>();
    s.train_windows = shared["train_windows"].get<std::int64_t>();
    s.loss_steps = shared["loss_steps"].get<std::int64_t>();
    s.loss_sum = shared["loss_sum"].get<double>();
    s.reached_accuracy = shared["reached_accuracy"].get<double>();
    s.train_data_sha256 = shared["train_data_sha256"].get<std::string>();
    s.train_data_generator = shared["train_data_generator"].get<std::string>();
    s.spikes = shared["spikes"].get<std::string>();
  };
  const Json own = {{"checkpoint", point.checkpoint},
                    {"step", s.step},
                    {"windows", s.windows},
                    {"tokens", s.tokens},
                    {"validated_step", s.validated_step},
                    {"train_windows", s.train_windows},
                    {"loss_steps", s.loss_steps},
                    {"loss_sum", s.loss_sum},
                    {"reached_accuracy", s.reached_accuracy},
                    {"train_data_sha256", s.train_data_sha256},
                    {"train_data_generator", s.train_data_generator},
                    {"spikes", s.spikes}};
  exchange(Json::parse(ranks.broadcast_text(own.dump(), 0)));
}

}  // namespace satformer
