// Joins the processes that torchrun, mpirun or srun started into one run.
#pragma once

#include <memory>

#include "distributed/communicator.h"
#include "distributed/environment.h"

namespace satformer {

inline constexpr double default_rank_timeout = 300;  // seconds

struct RankOptions {
  double timeout = default_rank_timeout;  // for all ranks to arrive, and of the watch (WatchOptions::timeout)
};

// Waits for all ranks of the run that the environment describes; a run of one process where it describes none.
// Errors: config (contradictory environment, an engine that this build lacks), system (ranks that do not arrive).
std::unique_ptr<Communicator> connect_ranks(const RankEnvironment& environment, const RankOptions& options);

// CPU threads for one of `ranks`' processes where the user named no number: its share of the machine's cores.
int threads_per_rank(const Communicator& ranks);

}  // namespace satformer
