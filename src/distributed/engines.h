// The engines behind connect_ranks(), and how their ranks meet.
#pragma once

#include <memory>
#include <vector>

#include "distributed/communicator.h"
#include "distributed/environment.h"
#include "distributed/rank_watch.h"
#include "distributed/socket.h"

namespace satformer {

// What a rank holds once all have met at rank 0.
struct Meeting {
  std::vector<Socket> links;        // for RankWatch
  std::vector<Endpoint> endpoints;  // of every rank's listener
};
// `root` is where rank 0 listens, known to all by other means; `listener` is this rank's own. Error(system) names
// ranks that did not come before the deadline.
Meeting meet_at_root(int rank, int size, const Endpoint& root, const Listener& listener, Deadline deadline);

// Tensors over TCP connections in a ring; sums are equal in every bit on all ranks and in every repetition.
std::unique_ptr<Communicator> make_ring(const RankEnvironment& environment, const Meeting& meeting,
                                        const Listener& listener, std::unique_ptr<RankWatch> watch,
                                        Deadline deadline);

// Open MPI. In a build without it, mpi_start() is Error(config).
RankEnvironment mpi_start(const RankEnvironment& environment);  // initialises MPI; ranks as MPI counts them
std::string mpi_share(const std::string& text);                 // rank 0's text, on all ranks
std::unique_ptr<Communicator> make_mpi(const RankEnvironment& environment, std::unique_ptr<RankWatch> watch);

}  // namespace satformer
