// Text of `train --dry-run`.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/progress.h"
#include "io/shards.h"
#include "nn/device.h"
#include "train/estimate.h"
#include "train/resume.h"
#include "train/session.h"
#include "train/train_only.h"

namespace satformer {
namespace {

std::string row(const std::string& label, const std::string& value) {
  char text[256];
  std::snprintf(text, sizeof text, "  %-26s %s\n", label.c_str(), value.c_str());
  return text;
}

std::string grouped(std::int64_t value) {  // 1,234,567
  const std::string digits = std::to_string(value);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string describe_examples(const RunConfig& config) {
  const SyntheticOptions& options = config.data.synthetic;
  const double tokens = static_cast<double>(options.examples) * static_cast<double>(config.data.seq_length);
  char epochs[32];
  std::snprintf(epochs, sizeof epochs, "%.2f", config.training.max_tokens * 1e9 / tokens);
  return row("generated data", concat(*options.task, ", ", grouped(options.examples), " examples (", epochs,
                                      " epochs), ", grouped(options.val_examples), " for validation"));
}

std::string describe_data(const RunConfig& config) {
  if (config.data.synthetic.task) return describe_examples(config);
  std::string text;
  for (const std::string& prefix : {config.data.train_prefix, config.data.val_prefix}) {
    std::string found;
    try {
      const TokenShards shards(config.data.data_dir, prefix);
      found = concat(grouped(shards.total_tokens()), " tokens in ", shards.num_shards(), " shard",
                     shards.num_shards() == 1 ? "" : "s");
      if (prefix == config.data.train_prefix) {
        char epochs[32];
        std::snprintf(epochs, sizeof epochs, "%.2f",
                      config.training.max_tokens * 1e9 / static_cast<double>(shards.total_tokens()));
        found += concat(" (", epochs, " epochs)");
      }
    } catch (const Error& error) {
      found = concat("missing: ", error.what());
    }
    text += row(prefix + " data", found);
  }
  return text;
}

}  // namespace

std::string describe_run(const RunSettings& settings, const TrainRequest& request) {
  const RunConfig& config = settings.config();
  check_device_name(config.system.device);
  ResumePoint start;
  if (!request.resume.empty()) start = find_resume_point(settings, request);
  const std::unique_ptr<Model> model =
      make_model(settings.architecture(), config.model.config, at::Device(c10::DeviceType::Meta));
  if (config.training.train_only) train_only(model->parameters(), *config.training.train_only);  // are they there?
  const ParameterCount count = count_parameters(*model);
  std::string text = concat(settings.architecture().class_name, "\n", row("parameters", grouped(count.total)));
  for (const auto& [part, elements] : count.parts) text += row("  " + part, grouped(elements));

  const Flops flops = training_flops(*model, config.data.seq_length);
  text += row("FLOPs per token", concat(human_count(flops.per_token()), " = ", flops_formula()));
  text += row("  products", human_count(flops.matmul_per_token));
  text += row("  attention", human_count(flops.attention_per_token));

  const MemoryEstimate memory = training_memory(*model, memory_shape(config));
  text += row("peak memory (estimate)", human_bytes(memory.peak()));
  text += row("  weights and gradients", human_bytes(memory.parameters + memory.gradients));
  text += row("  optimizer", human_bytes(memory.optimizer));
  if (memory.compute_copies > 0) text += row("  bfloat16 copies", human_bytes(memory.compute_copies));
  text += row("  activations", human_bytes(memory.activations));

  const std::int64_t steps = config.total_steps();
  text += row("tokens per step",
              concat(grouped(config.tokens_per_step()), " = ", config.training.batch_size, " windows x ",
                     config.training.gradient_accumulation_steps, " micro-batches x ", config.data.seq_length));
  if (config.data.order == authors_order) {
    text +=
        row("data order", concat("the authors', ", config.data.order_ranks, " ranks of ", config.data.order_workers,
                                 " loader workers; ", config.data.seq_length - 1, " targets a window"));
  }
  text += row("steps", concat(grouped(steps), " (", grouped(config.warmup_steps()), " of warmup)"));
  text += row("tokens", grouped(steps * config.tokens_per_step()));
  if (!start.checkpoint.empty()) {
    text += row("resume", concat("from ", start.checkpoint, ", ",
                                 grouped(std::max<std::int64_t>(0, steps - start.state.step)), " steps left"));
  } else if (!request.resume.empty()) {
    text += row("resume", concat("a new run: no checkpoint in ", config.checkpointing.checkpoint_dir));
  }
  text += row("FLOPs in all", human_count(flops.per_token() * static_cast<double>(steps * config.tokens_per_step())));
  const double bytes = checkpoint_bytes(*model, memory_shape(config).masters);
  const std::int64_t interval = config.checkpointing.checkpoint_interval;
  const std::int64_t written = interval > 0 ? steps / interval + (steps % interval != 0) : 1;
  const std::int64_t keep = config.checkpointing.keep_last;
  const std::int64_t kept = keep > 0 ? std::min(keep, written) : written;
  text += row("disk", concat(human_bytes(bytes), " per checkpoint, ", kept, " kept; at most ",
                             human_bytes(bytes * static_cast<double>(std::min(kept + 1, written)) +
                                         (config.checkpointing.save_final_model ? bytes / 3 : 0))));
  text += describe_data(config);
  return text;
}

}  // namespace satformer
