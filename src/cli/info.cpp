#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/model_io.h"
#include "checkpoint/tensor_io.h"
#include "cli/command.h"
#include "cli/options.h"
#include "io/file.h"
#include "io/torch_archive.h"
#include "nn/device.h"
#include "train/estimate.h"
#include "train/run_config.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

struct Described {
  std::unique_ptr<Model> model;
  std::string source;
  std::int64_t seq_length = 0, batch_size = 1;
  bool bfloat16 = false, recompute = false;
};

Described describe(const std::string& path) {
  Described d;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    LoadedModel loaded = describe_model(path, at::Device(at::kMeta));
    d.model = std::move(loaded.model);
    d.source = loaded.directory;
    load_weights(*d.model, weights_path(d.source));
    d.seq_length = d.model->config().max_position_embeddings;
    return d;
  }
  ConfigSources sources;
  sources.file = path;
  const RunSettings settings(sources);
  const RunConfig& config = settings.config();
  d.model = make_model(settings.architecture(), config.model.config, at::Device(at::kMeta));
  d.source = path;
  d.seq_length = config.data.seq_length;
  d.batch_size = config.training.batch_size;
  d.bfloat16 = config.training.dtype != "float32";
  d.recompute = config.training.gradient_checkpointing;
  return d;
}

void print_info(const Described& d, bool tensors) {
  const ModelConfig& c = d.model->config();
  const ParameterCount count = count_parameters(*d.model);
  std::printf("%s\n", d.source.c_str());
  std::printf("architecture   %s: %s residual routing, %s values\n", d.model->architecture().c_str(),
              c.residual_routing.c_str(), c.effective_value_path().c_str());
  std::printf(
      "shape          %lld layers, width %lld, %lld heads (%lld KV) of %lld, feed-forward %lld%s, vocabulary "
      "%lld%s\n",
      static_cast<long long>(c.num_hidden_layers), static_cast<long long>(c.hidden_size),
      static_cast<long long>(c.num_heads), static_cast<long long>(c.kv_heads()), static_cast<long long>(c.head_dim()),
      static_cast<long long>(c.ffn_size(0)),
      c.ffn_size(c.num_hidden_layers - 1) != c.ffn_size(0)
          ? concat(" to ", c.ffn_size(c.num_hidden_layers - 1)).c_str()
          : "",
      static_cast<long long>(c.vocab_size), c.tie_word_embeddings ? " (head tied)" : "");
  std::printf("parameters     %s (%lld)\n", human_count(static_cast<double>(count.total)).c_str(),
              static_cast<long long>(count.total));
  for (const auto& [part, n] : count.parts) {
    std::printf("  %-12s %12lld  %5.2f%%\n", part.c_str(), static_cast<long long>(n),
                100.0 * static_cast<double>(n) / static_cast<double>(count.total));
  }
  const Flops flops = training_flops(*d.model, d.seq_length);
  std::printf("FLOPs          %s per token of training at context %lld (%s)\n",
              human_count(flops.per_token()).c_str(), static_cast<long long>(d.seq_length), flops_formula().c_str());
  const MemoryEstimate m = training_memory(*d.model, {d.batch_size, d.seq_length, d.recompute, d.bfloat16});
  std::printf(
      "training       about %s at batch %lld x %lld: weights %s, gradients %s, optimizer %s, activations %s\n",
      human_bytes(m.peak()).c_str(), static_cast<long long>(d.batch_size), static_cast<long long>(d.seq_length),
      human_bytes(m.parameters).c_str(), human_bytes(m.gradients).c_str(), human_bytes(m.optimizer).c_str(),
      human_bytes(m.activations).c_str());
  std::printf(
      "KV cache       %s per token in float32, exactly a Transformer's\n",
      human_bytes(2.0 * 4.0 * static_cast<double>(c.num_hidden_layers * c.kv_heads() * c.head_dim())).c_str());
  std::printf("checkpoint     %s with optimizer state\n", human_bytes(checkpoint_bytes(*d.model)).c_str());
  if (!tensors) return;
  std::printf("\n%-64s %-18s %-10s %12s\n", "tensor", "shape", "kind", "elements");
  for (const Parameter& p : d.model->parameters().list()) {
    std::printf("%-64s %-18s %-10s %12lld\n", p.name.c_str(), shape_text(p.value.sizes()).c_str(),
                param_kind_name(p.kind), static_cast<long long>(p.value.numel()));
  }
}

// What the authors' trainer has in training_state.pt besides tensors.
void print_training_state(const TorchArchive& file) {
  std::string text;
  for (const auto& [key, label] : {std::pair{"step", "step "}, {"epoch", "epoch "}, {"tokens_processed", ""}}) {
    const auto value = file.integer(key);
    if (!value) continue;
    text += concat(text.empty() ? "" : ", ", label, *value, *label ? "" : " tokens");
  }
  if (!text.empty()) std::printf("training       %s\n", text.c_str());
}

// A file of torch.save: what it says of itself, its tensors.
void print_archive(const std::string& path, bool list) {
  const TorchArchive file(path);
  std::printf("%s\n", path.c_str());
  std::printf("file           torch.save archive of %zu tensors\n", file.names().size());
  print_training_state(file);
  if (!list) return;
  std::printf("\n%-64s %-18s %s\n", "tensor", "shape", "type");
  std::vector<std::byte> buffer;
  for (const std::string& name : file.names()) {
    const TensorView view = file.read(name, buffer);
    std::printf("%-64s %-18s %s\n", name.c_str(), shape_text(view.shape).c_str(), view.dtype.c_str());
  }
}

}  // namespace

int run_info(std::span<const std::string> arguments) {
  std::string path, device = "cpu";
  bool tensors = false;
  std::int64_t seq_length = 0, batch_size = 0;
  Options options("info",
                  "Parameters by part, FLOPs, memory and tensors of a config or a checkpoint. Reads no weights.");
  options
      .add("path", path, "A config (JSON), a model folder, a checkpoint, a run folder or a file of torch.save", true)
      .flag("--tensors", tensors, "List every tensor")
      .add("--seq-length", seq_length, "Context to count FLOPs and memory for (0: the config's)")
      .add("--batch-size,-b", batch_size, "Sequences to count memory for (0: the config's)")
      .add("--device", device, "cpu, cuda or cuda:N");
  if (!options.parse(arguments)) return 0;
  if (seq_length < 0) fail(ExitCode::usage, "--seq-length ", seq_length, " must be at least 1 (0: the config's)");
  if (batch_size < 0) fail(ExitCode::usage, "--batch-size ", batch_size, " must be at least 1 (0: the config's)");
  parse_device(device);
  std::error_code error;
  const bool torch_name = path.ends_with(".pt") || path.ends_with(".pth") || path.ends_with(".bin");
  if (fs::is_regular_file(path, error) && (torch_name || is_torch_archive(path))) {
    print_archive(path, tensors);
    return 0;
  }
  Described d = describe(path);
  if (seq_length > 0) d.seq_length = seq_length;
  if (batch_size > 0) d.batch_size = batch_size;
  print_info(d, tensors);
  const std::string state = d.source + "/training_state.pt";
  if (fs::is_regular_file(state, error)) {
    std::printf("\n%s\n", state.c_str());
    print_training_state(TorchArchive(state));
  }
  return 0;
}

}  // namespace satformer::cli
