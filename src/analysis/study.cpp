#include "analysis/study.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analysis/studies/list.h"
#include "base/error.h"

namespace satformer {
namespace {

constexpr Study studies_in_order[] = {
    {"gates", "mean, zeros, distribution and concentration of the gates of each layer and head", Needs::data,
     refuse_without_gates, study_gates},
    {"positions", "gates and loss over the position in the window", Needs::data, refuse_nothing, study_positions},
    {"kinds", "gates and loss by kind of token", Needs::data, refuse_nothing, study_kinds},
    {"relations", "correlation of gates with frequency, loss and earlier occurrence", Needs::data,
     refuse_without_gates, study_relations},
    {"heads", "similarity of the heads' gates, and clusters", Needs::data, refuse_without_gates, study_heads},
    {"interventions", "what edits of gates or mixing weights do to the loss", Needs::data, refuse_without_edits,
     study_interventions},
    {"strength", "how much of the values and of attention's output comes from early values", Needs::data,
     refuse_without_early_values, study_strength},
    {"lens", "what each layer predicts already, with and without early values", Needs::data, refuse_nothing,
     study_lens},
    {"identity", "how well each layer's output still tells the input token", Needs::data, refuse_nothing,
     study_identity},
    {"gradients", "gradient that reaches layer 0's values through each layer", Needs::data,
     refuse_without_early_values, study_gradients},
    {"tokens", "gates and loss over the tokens of one window", Needs::data, refuse_nothing, study_tokens},
    {"prompt", "gates and loss over the tokens of --prompt", Needs::prompt, refuse_nothing, study_prompt},
    {"contrast", "gates on two groups of texts", Needs::contrast, refuse_without_gates, study_contrast},
    {"training", "gate statistics that training logged", Needs::run, refuse_nothing, study_training},
};

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> applicable(const Model& model) {
  std::vector<std::string> names;
  for (const Study& study : studies_in_order) {
    if (study.refusal(model).empty()) names.emplace_back(study.name);
  }
  return names;
}

}  // namespace

PassOptions StudyInput::pass(const std::string& what) const {
  PassOptions options;
  options.batch_size = batch_size;
  options.document_end = document_end;
  if (progress) {
    options.progress = [this, what](std::int64_t done, std::int64_t rows) {
      progress(concat(what, ": ", done, "/", rows, " windows"));
    };
  }
  return options;
}

std::span<const Study> studies() { return studies_in_order; }

std::vector<const Study*> chosen_studies(const std::string& names, const Model& model,
                                         const std::function<std::string(Needs)>& missing) {
  std::vector<const Study*> chosen;
  const std::string what = concat("a model with residual_routing '", model.config().residual_routing,
                                  "' and value_path '", model.config().effective_value_path(), "'");
  if (names.empty()) {
    if (edit_space(model, {}).empty() && !refuse_without_early_values(model).empty()) {
      fail(ExitCode::config, what,
           " has no gates or mixing weights to take apart; studies that apply, for --studies: ",
           join(applicable(model)));
    }
    for (const Study& study : studies_in_order) {
      if (study.refusal(model).empty() && missing(study.needs).empty()) chosen.push_back(&study);
    }
    if (chosen.empty()) fail(ExitCode::usage, "nothing to study: ", missing(Needs::data));
    return chosen;
  }
  std::vector<std::string> known;
  for (const Study& study : studies_in_order) known.emplace_back(study.name);
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    begin = end + 1;
    const auto* found = std::find_if(std::begin(studies_in_order), std::end(studies_in_order),
                                     [&](const Study& s) { return name == s.name; });
    if (found == std::end(studies_in_order)) {
      fail(ExitCode::usage, "--studies: unknown study '", name, "', not one of: ", join(known), ".",
           did_you_mean(name, known));
    }
    if (const std::string refusal = found->refusal(model); !refusal.empty()) {
      fail(ExitCode::config, "study '", name, "' does not apply: ", what, " ", refusal,
           "; studies that apply: ", join(applicable(model)));
    }
    if (const std::string lack = missing(found->needs); !lack.empty()) {
      fail(ExitCode::usage, "study '", name, "': ", lack);
    }
    if (std::find(chosen.begin(), chosen.end(), found) == chosen.end()) chosen.push_back(found);
  }
  return chosen;
}

std::string refuse_nothing(const Model&) { return {}; }
std::string refuse_without_gates(const Model& model) {
  return edit_space(model, {}).gate_layers.empty() ? "has no gates" : "";
}
std::string refuse_without_edits(const Model& model) {
  return edit_space(model, {}).empty() ? "has no gates or mixing weights" : "";
}
std::string refuse_without_early_values(const Model& model) {
  const EditSpace space = edit_space(model, {});
  return space.gate_layers.empty() && space.lambda_layers.empty() ? "uses no early values with weights" : "";
}

std::string layer_label(std::int64_t layer) { return concat("layer ", layer); }

}  // namespace satformer
