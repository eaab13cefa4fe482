// Ranks in the threads of one process, connected by sockets.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/engines.h"

namespace satformer::testing_support {

// Calls body with the communicator of each of `size` ranks, in threads, and returns what each threw ("": nothing). A
// rank that throws tells the others.
inline std::vector<std::string> run_ranks(int size, const std::function<void(Communicator&)>& body,
                                          double timeout = 20) {
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::unique_ptr<Listener>> listeners;
  for (int rank = 0; rank < size; ++rank) listeners.push_back(std::make_unique<Listener>());
  const Endpoint root = endpoint_of(*listeners[0]);
  const auto run = [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    try {
      RankEnvironment e{
          .starter = Starter::torchrun, .rank = rank, .size = size, .local_rank = rank, .local_size = size};
      const Deadline deadline = after_seconds(timeout);
      Meeting meeting = meet_at_root(rank, size, root, *listeners[index], deadline);
      auto watch = std::make_unique<RankWatch>(
          WatchOptions{.rank = rank, .size = size, .timeout = timeout, .grace = 60}, std::move(meeting.links));
      const auto ranks = make_ring(e, meeting, *listeners[index], std::move(watch), deadline);
      try {
        body(*ranks);
        ranks->finish();
      } catch (const std::exception& error) {
        errors[index] = error.what();
        const auto* known = dynamic_cast<const Error*>(&error);
        ranks->report_failure(known ? known->code() : ExitCode::internal, error.what());
      }
    } catch (const std::exception& error) {
      errors[index] = error.what();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace satformer::testing_support
