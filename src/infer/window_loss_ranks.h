// Loss over windows that several ranks share.
#pragma once

#include "distributed/communicator.h"
#include "infer/window_loss.h"

namespace satformer {

// Each window on one rank, summed loss over summed targets of all: the result of window_loss() up to the order of the
// sum, on all ranks. All have the same windows and model. `stopped` is set on all ranks if options.progress of any
// answered no; options.scored numbers windows from the rank's first.
WindowLoss window_loss_over_ranks(Model& model, const WindowSource& windows, const WindowLossOptions& options,
                                  Communicator& ranks, bool& stopped);

}  // namespace satformer
