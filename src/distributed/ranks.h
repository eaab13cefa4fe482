// Joins the processes that torchrun, mpirun or srun started into one run.
#pragma once

#include <memory>
#include <string>

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

// The threads of one of `ranks`' processes: what the user asked for, if not 0; else of several processes its share of
// the machine's cores, unless OMP_NUM_THREADS is set (0).
int threads_of_rank(std::int64_t asked, const Communicator& ranks);
// Of several processes each takes its own GPU where the user named none: "cuda" becomes "cuda:1".
std::string device_of_rank(const std::string& asked, const Communicator& ranks);

}  // namespace satformer
