// Gradient of the loss into early values, through each layer that uses them.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/studies/list.h"
#include "analysis/value_gradients.h"
#include "base/error.h"
#include "probe/weight_edits.h"

namespace satformer {
namespace {

double norm(const at::Tensor& x) { return x.to(at::kDouble).norm().item<double>(); }

// Keeps what the gradients are read from.
class GradientTap : public LayerObserver {
 public:
  at::Tensor source_gate(std::int64_t layer, std::int64_t source, const at::Tensor& alpha_BTH) override {
    gates.push_back({layer, source, alpha_BTH.detach()});
    return alpha_BTH;
  }
  at::Tensor values(std::int64_t layer, const at::Tensor& own_BTHD, const at::Tensor& mixed_BTHD) override {
    own_BTHD.retain_grad();
    mixed_BTHD.retain_grad();
    own[layer] = own_BTHD;
    mixed[layer] = mixed_BTHD;
    return mixed_BTHD;
  }
  void attention(std::int64_t layer, const AttentionView& view) override {
    view.output_BTC.retain_grad();
    output[layer] = view.output_BTC;
  }

  struct Gates {
    std::int64_t layer, source;
    at::Tensor alpha_BTH;
  };
  std::vector<Gates> gates;
  std::map<std::int64_t, at::Tensor> own, mixed, output;
};

}  // namespace

ValueGradients value_gradients(Model& model, const at::Tensor& tokens_BT1, std::optional<std::int64_t> document_end) {
  const at::AutoGradMode with_gradients(true);
  const ModelConfig& config = model.config();
  const std::int64_t B = tokens_BT1.size(0), T = tokens_BT1.size(1) - 1;
  const at::Device device = model.parameters().device();
  GradientTap tap;
  ForwardOptions options;
  options.observer = &tap;
  options.document_end = document_end;
  model
      .loss(tokens_BT1.narrow(1, 0, T).contiguous().to(device), tokens_BT1.narrow(1, 1, T).contiguous().to(device),
            1.0 / static_cast<double>(B * T), options)
      .backward();
  const at::NoGradGuard no_grad;
  for (Parameter& p : model.parameters().list()) p.value.mutable_grad() = at::Tensor();

  // Gradient of what a layer adds its early values to, over KV heads.
  const auto upstream = [&](std::int64_t layer) {
    if (config.value_place != "output") return tap.mixed.at(layer).grad();
    const at::Tensor o = model.parameters().find(concat("model.layers.", layer, ".attn.o_proj.weight"))->value;
    const at::Tensor heads = tap.output.at(layer).grad().to(at::kFloat).matmul(o.to(at::kFloat));
    const std::int64_t H = config.kv_heads();
    return heads.view({B, T, H, config.num_heads / H, config.head_dim()}).sum(3);
  };
  ValueGradients result;
  for (const auto& [layer, source, alpha_BTH] : tap.gates) {
    const at::Tensor g = upstream(layer).to(at::kDouble), v = tap.own.at(source).detach().to(at::kDouble);
    result.layers.push_back({layer, source, norm(g * alpha_BTH.to(at::kDouble).unsqueeze(-1)),
                             norm(tap.own.at(layer).grad()), (g * v).sum(-1).abs().mean().item<double>()});
  }
  if (config.effective_value_path() == "resformer") {
    const at::Tensor lambda1 = resformer_lambda1(model);
    for (std::int64_t layer = 1; layer < config.num_hidden_layers; ++layer) {
      if (!config.value_path_active(layer)) continue;
      const double early = std::fabs(lambda1[layer - 1].item<double>()) * norm(tap.mixed.at(layer).grad());
      result.layers.push_back(
          {layer, 0, early, norm(tap.own.at(layer).grad()), std::numeric_limits<double>::quiet_NaN()});
    }
  }
  for (const std::int64_t source : config.value_source_layers())
    result.totals[source] = norm(tap.own.at(source).grad());
  return result;
}

void study_gradients(const StudyInput& input, StudyResult& result) {
  constexpr std::int64_t most_windows = 4;
  const at::Tensor& tokens = input.measured->tokens_WT1;
  const std::int64_t windows = std::min({most_windows, input.batch_size, tokens.size(0)});
  if (input.progress) input.progress("gradients into early values");
  const ValueGradients gradients = value_gradients(*input.model, tokens.narrow(0, 0, windows), input.document_end);
  Table table;
  table.caption = "Gradient of the mean loss into early values, through each layer";
  table.columns = {{"layer", true, ""},
                   {"source", true, ""},
                   {"into the early values", true, ""},
                   {"share of the whole", true, ""},
                   {"into its own values", true, ""},
                   {"of a gate, mean size", true, ""}};
  std::map<std::int64_t, Line> lines;
  Line own = named_line("into the layer's own values", {}, {}, true);
  for (const ValueGradient& g : gradients.layers) {
    const double share = g.early / gradients.totals.at(g.source);
    const auto x = static_cast<double>(g.layer);
    table.rows.push_back(
        {Cell(x), Cell(static_cast<double>(g.source)), Cell(g.early), Cell(share), Cell(g.own), Cell(g.gate)});
    result.json["layers"].push_back({{"layer", g.layer},
                                     {"source", g.source},
                                     {"early", g.early},
                                     {"own", g.own},
                                     {"share", share},
                                     {"gate", g.gate}});
    Line& line = lines[g.source];
    line.label = concat("into layer ", g.source, "'s values");
    line.xs.push_back(x);
    line.ys.push_back(g.early);
    if (own.xs.empty() || own.xs.back() < x) {
      own.xs.push_back(x);
      own.ys.push_back(g.own);
    }
  }
  LineChart chart;
  chart.title = "Gradient into values, through each layer";
  chart.x_label = "layer";
  chart.y_label = "norm";
  for (auto& [source, line] : lines) {
    chart.lines.push_back(std::move(line));
    result.json["totals"].push_back({{"source", source}, {"norm", gradients.totals.at(source)}});
  }
  chart.lines.push_back(own);
  table.notes = {concat("Over ", windows, " windows. Norms of parts of a sum: shares need not add up to 1.")};
  result.figure(line_chart_svg(chart));
  result.table("gradients.csv", table);
}

}  // namespace satformer
