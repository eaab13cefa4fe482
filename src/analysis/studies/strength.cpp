// Share of early values in V' and in the attention sublayers' outputs.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/charts.h"
#include "analysis/studies/list.h"
#include "analysis/value_strength.h"
#include "base/error.h"
#include "probe/weight_edits.h"

namespace satformer {
namespace {

// |a| / (|a| + |b|) over the last axis, fp64; 0 where both are zero.
at::Tensor norm_share(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor na = a.to(at::kDouble).square().sum(-1).sqrt(), nb = b.to(at::kDouble).square().sum(-1).sqrt();
  return na / (na + nb).clamp_min(1e-300);
}

}  // namespace

ValueStrength::ValueStrength(const Model& model)
    : at_output_(model.config().value_place == "output"),
      resformer_(model.config().effective_value_path() == "resformer"),
      source_layers_(model.config().value_source_layers()) {
  if (!resformer_) return;
  const at::Tensor lambda1 = resformer_lambda1(model);
  for (std::int64_t layer = 0; layer < model.config().num_hidden_layers; ++layer) {
    const Parameter* lambda2 =
        model.parameters().find(concat("model.layers.", layer, ".attn.value_residual_mixing.lambda2"));
    lambda1_.push_back(lambda2 ? lambda1[layer - 1].item<double>() : 0);
    lambda2_.push_back(lambda2 ? lambda2->value.item<double>() : 1);
  }
}

at::Tensor ValueStrength::source_gate(std::int64_t, std::int64_t source, const at::Tensor& alpha_BTH) {
  gates_.emplace_back(source, alpha_BTH.detach());
  return alpha_BTH;
}

at::Tensor ValueStrength::values(std::int64_t layer, const at::Tensor& own_BTHD, const at::Tensor& mixed_BTHD) {
  own_ = own_BTHD;
  if (std::find(source_layers_.begin(), source_layers_.end(), layer) != source_layers_.end())
    sources_[layer] = own_BTHD;
  return mixed_BTHD;
}

void ValueStrength::attention(std::int64_t layer, const AttentionView& view) {
  at::NoGradGuard no_grad;
  at::Tensor early, own = own_;
  if (resformer_) {
    const auto l = static_cast<std::size_t>(layer);
    if (lambda1_[l] != 0) {
      early = sources_.at(0) * lambda1_[l];
      own = own_ * lambda2_[l];
    }
  } else {
    for (const auto& [source, alpha_BTH] : gates_) {
      const at::Tensor& v = sources_.at(source);
      const at::Tensor part = alpha_BTH.to(v.scalar_type()).unsqueeze(-1) * v;
      early = early.defined() ? early + part : part;
    }
  }
  gates_.clear();
  if (!early.defined()) return;
  Sums& s = sums_[layer];
  const at::Tensor share_H = norm_share(early, own).sum(at::IntArrayRef({0, 1})).cpu();
  s.head_share_H = s.head_share_H.defined() ? s.head_share_H + share_H : share_H;
  const at::Tensor c = (at_output_ ? view.project : view.attend)(early).to(at::kDouble);
  const at::Tensor o = view.output_BTC.to(at::kDouble);
  s.output_share += norm_share(c, o - c).sum().item<double>();
  s.along += (c * o).sum().item<double>();
  s.square += o.square().sum().item<double>();
  s.tokens += static_cast<double>(o.size(0) * o.size(1));
}

std::map<std::int64_t, ValueStrength::Layer> ValueStrength::layers() const {
  std::map<std::int64_t, Layer> result;
  for (const auto& [layer, s] : sums_) {
    Layer& l = result[layer];
    for (std::int64_t h = 0; h < s.head_share_H.size(0); ++h) {
      l.head_share.push_back(s.head_share_H[h].item<double>() / s.tokens);
      l.value_share += l.head_share.back() / static_cast<double>(s.head_share_H.size(0));
    }
    l.output_share = s.output_share / s.tokens;
    l.output_projection = s.square > 0 ? s.along / s.square : 0;
  }
  return result;
}

void study_strength(const StudyInput& input, StudyResult& result) {
  constexpr std::int64_t most_windows = 16;
  ValueStrength strength(*input.model);
  PassOptions options = input.pass("strength of early values");
  options.observer = &strength;
  const at::Tensor& tokens = input.measured->tokens_WT1;
  row_losses(*input.model, tokens.narrow(0, 0, std::min(most_windows, tokens.size(0))), options);

  Table table;
  table.caption = "Share of early values";
  table.columns = {{"layer", true, ""},
                   {"of the values' norm", true, ""},
                   {"of the output's norm", true, ""},
                   {"along the output", true, ""}};
  table.notes = {concat("Over the first ", std::min(most_windows, tokens.size(0)), " windows.")};
  Table heads;
  heads.columns = {{"layer", true, ""}, {"head", true, ""}, {"of the values' norm", true, ""}};
  Line values = named_line("of the values' norm"), outputs = named_line("of the output's norm"),
       along = named_line("along the output", {}, {}, true);
  HeatMap map;
  map.title = "Share of early values in the values' norm, each layer and head";
  map.row_axis = "layer";
  map.column_axis = "KV head";
  map.low = 0;
  double most = -1;
  std::int64_t at = 0;
  const auto layers = strength.layers();
  for (const auto& [layer, l] : layers) {
    const auto x = static_cast<double>(layer);
    table.rows.push_back(
        {Cell(x), percent_cell(l.value_share), percent_cell(l.output_share), percent_cell(l.output_projection)});
    for (Line* line : {&values, &outputs, &along}) line->xs.push_back(x);
    values.ys.push_back(l.value_share);
    outputs.ys.push_back(l.output_share);
    along.ys.push_back(l.output_projection);
    map.row_labels.push_back(layer_label(layer));
    map.values.insert(map.values.end(), l.head_share.begin(), l.head_share.end());
    for (std::size_t h = 0; h < l.head_share.size(); ++h) {
      heads.rows.push_back({Cell(x), Cell(static_cast<double>(h)), Cell(l.head_share[h])});
      if (map.row_labels.size() == 1) map.column_labels.push_back(std::to_string(h));
    }
    map.show_values = l.head_share.size() <= 16;
    result.json["layers"].push_back({{"layer", layer},
                                     {"value_share", l.value_share},
                                     {"head_share", l.head_share},
                                     {"output_share", l.output_share},
                                     {"output_projection", l.output_projection}});
    if (l.output_share > most) {
      most = l.output_share;
      at = layer;
    }
  }
  LineChart chart;
  chart.title = "Share of early values over depth";
  chart.x_label = "layer";
  chart.y_label = "share";
  chart.lines = {values, outputs, along};
  result.figure(line_chart_svg(chart),
                "\"Along the output\" may be negative: the early part then works against the rest.");
  result.figure(heat_map_svg(map));
  result.table("strength_layers.csv", table);
  result.table("strength_heads.csv", heads, false);
  if (!layers.empty()) {
    result.summary.push_back(
        concat("early values are at most ", fixed(100 * most, 1), " % of the output's norm (", layer_label(at), ")"));
  }
}

}  // namespace satformer
