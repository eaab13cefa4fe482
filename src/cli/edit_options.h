// --edit: an intervention (probe/intervention.h) that holds for a whole command.
#pragma once

#include <memory>
#include <string>

#include "checkpoint/model_io.h"
#include "cli/options.h"
#include "probe/gate_editor.h"
#include "probe/weight_edits.h"

namespace satformer::cli {

// Learned weights are edited while this lives; gates in the passes that observer() is given to.
class ActiveEdits {
 public:
  ActiveEdits(Model& model, const Intervention& intervention, GateMeans means);
  LayerObserver* observer() { return &editor_; }

 private:
  GateMeans means_;
  WeightEdits weights_;
  GateEditor editor_;
};

struct EditOptions {
  std::string edit, data_dir;
  std::int64_t windows = 32;

  void add_to(Options& options);
  // Null without --edit. Error(usage) for an edit that the model has not, and for those that need whole windows
  // (shuffle, kinds: `analyze` has them). Means are of the gates on the first windows of --edit-data's val shards.
  std::unique_ptr<ActiveEdits> activate(const LoadedModel& loaded) const;
};

}  // namespace satformer::cli
