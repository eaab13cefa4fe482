// What edits of gates and of learned mixing weights do to the loss.
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "analysis/charts.h"
#include "analysis/effect.h"
#include "analysis/studies/list.h"
#include "base/error.h"
#include "probe/gate_editor.h"
#include "probe/observer_chain.h"
#include "probe/weight_edits.h"

namespace satformer {

GateMeans measured_means(const Measurement& m) {
  GateMeans means(static_cast<std::int64_t>(m.kind_names.size()));
  means.set_kinds(m.kinds_WT);
  for (const GateTrack& track : m.gates) means.source_gate(track.layer, track.source, track.gates_WTH);
  return means;
}

at::Tensor edited_losses(const StudyInput& input, const Intervention& intervention, const GateMeans& means,
                         LayerObserver* observer) {
  const Measurement& m = *input.measured;
  const WeightEdits weights(*input.model, intervention);
  GateEditor editor(intervention, &means);
  ObserverChain chain({&editor, observer});
  PassOptions options = input.pass(intervention.spec);
  options.observer = &chain;
  options.before = [&](std::int64_t first, const at::Tensor& ids_BT, const at::Tensor&) {
    editor.begin(m.kinds_WT.narrow(0, first, ids_BT.size(0)), first);
  };
  return row_losses(*input.model, m.tokens_WT1, options);
}

Effect effect_of(const at::Tensor& edited_WT, const Measurement& m, const std::string& name, std::int64_t resamples) {
  const at::Tensor change_WT = edited_WT.to(at::kDouble) - m.losses_WT.to(at::kDouble);
  Effect effect;
  effect.all = window_estimate(change_WT, {}, resamples, name);
  for (std::size_t k = 0; k < m.kind_names.size(); ++k) {
    effect.kinds.push_back(window_estimate(change_WT, m.kinds_WT.eq(static_cast<std::int64_t>(k)), resamples,
                                           name + "/" + m.kind_names[k]));
  }
  return effect;
}

namespace {

// The usual edits of a model.
std::vector<std::string> default_specs(const EditSpace& space) {
  std::vector<std::string> specs;
  const auto each = [&](const char* operation, const std::vector<std::int64_t>& layers) {
    if (layers.size() < 2) return;
    for (const std::int64_t layer : layers) specs.push_back(concat(operation, "@layers=", layer));
  };
  if (!space.gate_layers.empty()) {
    specs.insert(specs.end(), {"zero", "mean=overall", "mean=head", "mean=kind", "shuffle"});
    each("zero", space.gate_layers);
  }
  if (!space.lambda_layers.empty()) {
    specs.insert(specs.end(), {"lambda1-zero", "lambda1-mean"});
    each("lambda1-zero", space.lambda_layers);
  }
  const auto add = [&](const char* operation, const std::vector<std::int64_t>& layers) {
    if (layers.empty()) return;
    specs.emplace_back(operation);
    each(operation, layers);
  };
  add("dense-own", space.dense_layers);
  add("mudd-static", space.mudd_layers);
  add("hyper-static", space.hyper_layers);
  return specs;
}

}  // namespace

void study_interventions(const StudyInput& input, StudyResult& result) {
  const Measurement& m = *input.measured;
  const EditSpace space = edit_space(*input.model, m.kind_names);
  std::vector<Intervention> interventions;
  for (const std::string& spec : default_specs(space)) interventions.push_back(parse_intervention(spec, space));
  const std::size_t defaults = interventions.size();
  interventions.insert(interventions.end(), input.interventions.begin(), input.interventions.end());

  const GateMeans means = measured_means(m);
  const double base = m.losses_WT.to(at::kDouble).mean().item<double>();
  Table table;
  table.caption = "Change of the loss under each intervention (nats)";
  table.columns = {
      {"intervention", false, ""}, {"change", true, ""}, {"95 % interval", false, ""}, {"perplexity ×", true, ""}};
  Table by_kind;
  by_kind.caption = "The same at tokens of each kind (nats)";
  by_kind.columns = {{"intervention", false, ""}};
  for (const std::string& kind : m.kind_names) {
    by_kind.columns.push_back({kind, true, ""});
    by_kind.columns.push_back({"interval, " + kind, false, ""});
  }
  table.notes = {concat("Unedited: ", number_text(base), " nats over ", m.tokens(), " tokens of ", m.windows(),
                        " windows. Paired by window; bootstrap over windows.")};
  if (m.windows() < 20) {
    table.notes.push_back("Few windows: bootstrap intervals over fewer than 20 are too narrow. --limit takes more.");
    result.summary.push_back(
        concat("only ", m.windows(), " windows: the intervals are too narrow; --limit takes more"));
  }
  BarChart whole, layers, kinds;
  whole.title = "Change of the loss";
  whole.subtitle = "nats a token, edited - unedited, with 95 % intervals over windows";
  layers = kinds = whole;
  layers.title = "Change of the loss, one layer at a time";
  kinds.title = "Change of the loss by kind of token";
  result.json["loss"] = base;
  for (std::size_t i = 0; i < interventions.size(); ++i) {
    const std::string& spec = interventions[i].spec;
    const Effect effect = effect_of(edited_losses(input, interventions[i], means), m, spec, input.resamples);
    Json json = {
        {"edit", spec}, {"change", estimate_json(effect.all)}, {"perplexity_ratio", std::exp(effect.all.value)}};
    std::vector<Cell> row = {Cell(spec), Cell(effect.all.value), interval_cell(effect.all.interval),
                             Cell(std::exp(effect.all.value))};
    std::vector<Cell> kind_row = {Cell(spec)};
    const bool one_layer = i < defaults && spec.find("@layers=") != std::string::npos;
    (one_layer ? layers : whole).bars.push_back(estimate_bar(spec, effect.all));
    for (std::size_t k = 0; k < effect.kinds.size(); ++k) {
      const Estimate& e = effect.kinds[k];
      json["kinds"][m.kind_names[k]] = estimate_json(e);
      kind_row.emplace_back(e.value);
      kind_row.push_back(interval_cell(e.interval));
      if (!one_layer && e.tokens > 0) kinds.bars.push_back(estimate_bar(m.kind_names[k], e, spec));
    }
    table.rows.push_back(std::move(row));
    by_kind.rows.push_back(std::move(kind_row));
    result.json["edits"].push_back(std::move(json));
    if (!one_layer) {
      result.summary.push_back(concat(spec, ": ", effect.all.value >= 0 ? "+" : "", fixed(effect.all.value, 4),
                                      " nats [", fixed(effect.all.interval.low, 4), ", ",
                                      fixed(effect.all.interval.high, 4), "]"));
    }
  }
  for (const BarChart* chart : {&whole, &layers, &kinds}) {
    if (!chart->bars.empty()) result.figure(bar_chart_svg(*chart));
  }
  result.table("interventions.csv", table);
  result.table("interventions_kinds.csv", by_kind);
}

}  // namespace satformer
