#include "checkpoint/retrofit.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace satformer {
namespace {

constexpr std::pair<const char*, const char*> short_names[] = {
    {"gate", "value_residual_gate"}, {"granularity", "value_gate_granularity"}, {"sources", "value_sources"},
    {"layers", "value_layers"},      {"last_k", "value_residual_last_k"},       {"place", "value_place"},
    {"ffn", "value_gate_ffn"},       {"bias", "value_residual_proj_bias"},      {"std", "value_gate_init_std"}};

// "gate=tanh" as "value_residual_gate=tanh", a list "0;1" as JSON.
std::string full_assignment(const std::string& text, std::vector<std::string>& known) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ExitCode::usage, "--add: '", text, "' is not of the form key=value");
  }
  std::string key = text.substr(0, equals), value = text.substr(equals + 1);
  bool found = false;
  for (const auto& [brief, full] : short_names) {
    if (key == brief) key = full;
    found = found || key == full;
    known.emplace_back(brief);
    known.emplace_back(full);
  }
  if (!found && key != "lime_keys") {
    fail(ExitCode::usage, "--add: '", key, "' is not a field of a value path.", did_you_mean(key, known));
  }
  if (key == "value_sources" || key == "value_layers") {
    for (char& c : value) c = c == ';' ? ',' : c;
    value = "[" + value + "]";
  }
  return key + "=" + value;
}

}  // namespace

RetrofitPlan plan_retrofit(const std::string& addition, const ModelConfig& base) {
  if (base.effective_value_path() != "own") {
    fail(ExitCode::usage, "the model has the value path '", base.effective_value_path(),
         "' already; a value path can be added to 'own' alone");
  }
  const std::size_t open = addition.find('[');
  if (open != std::string::npos && !addition.ends_with(']')) {
    fail(ExitCode::usage, "--add '", addition, "' is not of the form NAME[key=value,...]");
  }
  RetrofitPlan plan;
  plan.value_path = addition.substr(0, open);
  const std::vector<std::string> paths = {"satformer", "resformer", "lime"};
  if (std::find(paths.begin(), paths.end(), plan.value_path) == paths.end()) {
    fail(ExitCode::usage, "--add '", plan.value_path, "' is not one of: satformer, resformer, lime.",
         did_you_mean(plan.value_path, paths));
  }
  ModelConfig& c = plan.config;
  c = base;
  c.value_path = plan.value_path;
  c.use_value_residual = true;
  c.value_residual_gate = "tanh";
  ConfigBinding binding(c);
  if (open != std::string::npos) {
    const std::string list = addition.substr(open + 1, addition.size() - open - 2);
    std::vector<std::string> known, given;
    for (std::size_t at = 0; at < list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      const std::string assignment = full_assignment(list.substr(at, end - at), known);
      given.push_back(assignment.substr(0, assignment.find('=')));
      if (std::count(given.begin(), given.end(), given.back()) > 1) {
        fail(ExitCode::usage, "--add: ", given.back(), " is given twice");
      }
      binding.apply_override(assignment);
      at = end + 1;
    }
    for (const std::string& key : unread_model_keys(c)) {
      if (std::find(given.begin(), given.end(), key) == given.end()) continue;
      fail(ExitCode::usage, "--add: ", key, " has no effect on the value path '", plan.value_path, "'");
    }
  }
  if (plan.value_path != "satformer") return plan;
  const std::string& gate = c.value_residual_gate;
  plan.exact = gate == "tanh" || gate == "identity";
  if (plan.exact && c.value_gate_granularity == "factorised") {
    fail(ExitCode::usage,
         "--add: a product of three gates that start at zero never gets a gradient; choose another "
         "granularity than 'factorised', or a gate that does not start at zero");
  }
  return plan;
}

std::unique_ptr<Model> retrofit(const Model& base, const RetrofitPlan& plan, std::uint64_t seed) {
  ModelConfig config = plan.config;
  std::string name = base.architecture();
  if (config.residual_routing == "plain" && plan.value_path != "lime") name = plan.value_path;
  std::unique_ptr<Model> model = make_model(architecture_by_name(name), config, base.parameters().device());
  model->parameters().initialise(seed);
  const at::NoGradGuard no_grad;
  std::size_t copied = 0;
  for (Parameter& p : model->parameters().list()) {
    if (const Parameter* old = base.parameters().find(p.name)) {
      p.value.copy_(old->value);
      ++copied;
    } else if (plan.value_path == "resformer") {
      // 0 V1 + 1 V: lambda_scale has a gradient all the same.
      if (p.name.ends_with(".lambda2")) p.value.fill_(1);
      if (p.name.ends_with(".lambda_scale")) p.value.zero_();
    } else if (plan.value_path == "satformer" && plan.exact && !p.name.ends_with("alpha_hidden.weight")) {
      p.value.zero_();
    }
  }
  if (copied != base.parameters().list().size())
    fail(ExitCode::internal, "the base has parameters that the new model lacks");
  return model;
}

}  // namespace satformer
