#include "cli/edit_options.h"

#include <algorithm>

#include "base/error.h"
#include "cli/window_options.h"

namespace satformer::cli {
namespace {

void check_edits(const Intervention& intervention) {
  for (const Edit& e : intervention.edits) {
    if (e.operation == EditOperation::shuffle) {
      fail(ExitCode::usage, "--edit '", intervention.spec,
           "': shuffle needs whole windows; 'satformer analyze --edit' has it");
    }
    if (!e.kinds.empty() || e.over == Edit::Over::kind) {
      fail(ExitCode::usage, "--edit '", intervention.spec,
           "': kinds of tokens are known to 'satformer analyze --edit' alone");
    }
  }
}

}  // namespace

ActiveEdits::ActiveEdits(Model& model, const Intervention& intervention, GateMeans means)
    : means_(std::move(means)), weights_(model, intervention), editor_(intervention, &means_) {}

void EditOptions::add_to(Options& options) {
  options
      .add("--edit", edit,
           "An intervention on gates or mixing weights, as \"zero@layers=3-5,heads=0\" (docs: analyze)")
      .add("--edit-data", data_dir, "Token shards whose gates give the means of --edit mean")
      .add("--edit-windows", windows, "Windows of --edit-data")
      .needs("--edit-data", "--edit")
      .needs("--edit-windows", "--edit-data");
}

std::unique_ptr<ActiveEdits> EditOptions::activate(const LoadedModel& loaded) const {
  if (windows < 1) fail(ExitCode::usage, "--edit-windows ", windows, " must be at least 1");
  if (edit.empty()) return nullptr;
  Model& model = *loaded.model;
  const Intervention intervention = parse_intervention(edit, edit_space(model, {}));
  check_edits(intervention);
  if (!intervention.needs_means() && !data_dir.empty()) {
    fail(ExitCode::usage, "--edit-data gives means, which --edit '", edit, "' does not use");
  }
  GateMeans means;
  if (intervention.needs_means()) {
    if (data_dir.empty()) fail(ExitCode::usage, "--edit '", edit, "' needs --edit-data, shards to take means over");
    WindowOptions source;
    source.data_dir = data_dir;
    source.limit = windows;
    const TokenWindows shards = source.open(loaded);
    ProgressLine progress;
    WindowLossOptions pass = source.loss_options(loaded, "means of gates", false, progress);
    pass.observer = &means;
    window_loss(model, shards, pass);
    progress.finish(concat("means of gates: ", std::min(windows, shards.size()), " windows done"));
  }
  return std::make_unique<ActiveEdits>(model, intervention, std::move(means));
}

}  // namespace satformer::cli
