#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/window_options.h"
#include "probe/gate_statistics.h"

namespace satformer::cli {
namespace {

void write_json(const std::unique_ptr<AtomicFile>& file, const Json& json) {
  if (!file) return;
  file->write(json.dump(2) + "\n");
  file->commit();
}

// ResFormer's two weights of a layer are the same for every token: read, not measured.
int print_static_weights(const Model& model, const std::unique_ptr<AtomicFile>& output) {
  const auto value = [&](const std::string& name) { return model.parameters().find(name); };
  const Parameter* scale = value("model.lambda_manager.lambda_scale");
  const at::Tensor lambda1 =
      scale->value.detach() * value("model.lambda_manager.lambda_logits")->value.detach().softmax(0);
  Json json;
  json["architecture"] = model.architecture();
  json["layers"] = Json::array();
  std::printf("layer   weight of layer 0's values   weight of its own values\n");
  for (std::int64_t layer = 1; layer < model.config().num_hidden_layers; ++layer) {
    const Parameter* lambda2 = value(concat("model.layers.", layer, ".attn.value_residual_mixing.lambda2"));
    if (!lambda2) continue;
    const double l1 = lambda1[layer - 1].item<double>(), l2 = lambda2->value.item<double>();
    std::printf("%5lld %28.4f %26.4f\n", static_cast<long long>(layer), l1, l2);
    json["layers"].push_back({{"layer", layer}, {"lambda1", l1}, {"lambda2", l2}});
  }
  write_json(output, json);
  return 0;
}

void print_gates(const GateStatistics& statistics, bool pool) {
  std::printf("gates over %lld tokens\n", static_cast<long long>(statistics.tokens()));
  std::printf("layer  %s  mean   zeros     max   mean of each KV head\n", pool ? "source  " : "");
  for (const std::int64_t layer : statistics.layers()) {
    for (const std::int64_t source : statistics.sources(layer)) {
      const HeadGates all = statistics.layer(layer, source);
      std::printf("%5lld  ", static_cast<long long>(layer));
      if (pool) std::printf("%6lld  ", static_cast<long long>(source));
      std::printf("%6.4f  %5.1f%%  %6.3f  ", all.mean, 100 * all.zero_share, all.max);
      for (const HeadGates& head : statistics.heads(layer, source)) std::printf(" %6.4f", head.mean);
      std::printf("\n");
    }
  }
}

Json gates_json(const GateStatistics& statistics, const Model& model) {
  const auto figures = [](const HeadGates& g) {
    return Json{{"mean", g.mean}, {"zero_share", g.zero_share}, {"max", g.max}, {"std", g.std_dev}};
  };
  Json json;
  json["architecture"] = model.architecture();
  json["gate"] = model.config().value_residual_gate;
  json["granularity"] = model.config().value_gate_granularity;
  json["tokens"] = statistics.tokens();
  json["layers"] = Json::array();
  for (const std::int64_t layer : statistics.layers()) {
    for (const std::int64_t source : statistics.sources(layer)) {
      Json entry = figures(statistics.layer(layer, source));
      entry["layer"] = layer;
      entry["source"] = source;
      for (const HeadGates& head : statistics.heads(layer, source)) entry["heads"].push_back(figures(head));
      json["layers"].push_back(entry);
    }
  }
  return json;
}

}  // namespace

int run_gates(std::span<const std::string> arguments) {
  ModelOptions model_options;
  WindowOptions window_options;
  window_options.limit = 64;
  Options options("gates",
                  "How much of layer 0's values each later layer takes: mean gate and share of exact zeros per "
                  "layer and KV head, measured on token shards (SATFormer values), or the learned weights "
                  "(ResFormer values).");
  model_options.add_to(options, false);
  window_options.add_to(options, false);
  if (!options.parse(arguments)) return 0;

  const std::unique_ptr<AtomicFile> output_file = window_options.check_and_open_output();
  const LoadedModel loaded = model_options.load();
  Model& model = *loaded.model;
  const std::string path = model.config().effective_value_path();
  if (path == "own") {
    fail(ExitCode::config, "'", loaded.directory, "' (", model.architecture(),
         ") has no gates: its layers use their own values only");
  }
  if (path != "resformer" && path != "satformer") {
    fail(ExitCode::config, "'", loaded.directory, "' (", model.architecture(), ") has no gates: its value_path is '",
         path, "'");
  }
  if (path == "resformer" && !window_options.data_dir.empty()) {
    fail(ExitCode::usage,
         "--data-dir: the weights of ResFormer values are the same for every token, no data is read");
  }
  if (path == "resformer") return print_static_weights(model, output_file);
  if (model.config().active_value_layers() == 0)
    fail(ExitCode::config, "no layer of '", loaded.directory, "' has gates");
  if (window_options.data_dir.empty()) fail(ExitCode::usage, "--data-dir is required: gates depend on the tokens");
  const TokenWindows windows = window_options.open(loaded);

  GateStatistics statistics;
  ProgressLine progress;
  WindowLossOptions loss_options = window_options.loss_options(loaded, "gates", false, progress);
  loss_options.observer = &statistics;
  window_loss(model, windows, loss_options);
  for (const std::int64_t layer : statistics.layers()) {
    for (const std::int64_t source : statistics.sources(layer)) {
      if (std::isfinite(statistics.layer(layer, source).mean)) continue;
      fail(ExitCode::non_finite, "the gates of layer ", layer, " of '", loaded.directory, "' are not finite");
    }
  }
  print_gates(statistics, model.config().value_sources.size() > 1);
  write_json(output_file, gates_json(statistics, model));
  return 0;
}

}  // namespace satformer::cli
