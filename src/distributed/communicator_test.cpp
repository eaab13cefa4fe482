#include "distributed/communicator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "base/test_error.h"
#include "distributed/environment.h"
#include "distributed/ranks.h"
#include "distributed/test_ranks.h"

namespace satformer {
namespace {

using testing_support::run_ranks;

void expect_quiet(const std::vector<std::string>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], "") << "rank " << rank;
}

// Every operation gives what its definition says, for any number of ranks and lengths around the cuts.
void check_operations(Communicator& ranks) {
  const int size = ranks.size(), rank = ranks.rank();
  for (const std::int64_t each : {1, 7, 3000}) {
    const at::Tensor base = at::arange(each * size, at::kFloat);
    at::Tensor sum = base + static_cast<float>(rank);
    ranks.all_reduce(sum);
    const at::Tensor expected = base * static_cast<float>(size) + static_cast<float>(size * (size - 1) / 2);
    EXPECT_TRUE(sum.equal(expected)) << each;

    at::Tensor whole = base + static_cast<float>(rank), part = at::empty({each});
    ranks.reduce_scatter(whole, part);
    EXPECT_TRUE(part.equal(expected.narrow(0, rank * each, each))) << each;

    at::Tensor gathered = at::empty({each * size});
    ranks.all_gather(part, gathered);
    EXPECT_TRUE(gathered.equal(expected)) << each;

    for (int root = 0; root < size; ++root) {
      at::Tensor value = at::full({each}, rank + 1, at::kLong);
      ranks.broadcast(value, root);
      EXPECT_TRUE(value.equal(at::full({each}, root + 1, at::kLong)));
    }
  }
  // More than is summed by gathering, and no multiple of the ranks.
  at::Tensor odd = at::ones({100003}, at::kDouble);
  ranks.all_reduce(odd);
  EXPECT_TRUE(odd.equal(at::full({100003}, size, at::kDouble)));
  EXPECT_EQ(ranks.broadcast_text(rank == 0 ? "hello" : "", 0), "hello");
  EXPECT_EQ(ranks.broadcast_text("", 0), "");
  // Many at once, in order.
  std::vector<at::Tensor> tensors;
  std::vector<Pending> pending;
  for (int i = 0; i < 20; ++i) {
    tensors.push_back(at::full({1000}, i, at::kFloat));
    pending.push_back(ranks.start_all_reduce(tensors.back()));
  }
  for (int i = 19; i >= 0; --i) {
    pending[static_cast<std::size_t>(i)].wait();
    EXPECT_EQ(tensors[static_cast<std::size_t>(i)][999].item<float>(), static_cast<float>(i * size));
  }
  ranks.barrier();
}

TEST(Communicator, OperationsOverSockets) {
  for (const int size : {1, 2, 3, 5}) {
    if (size == 1) {
      check_operations(*make_one_process());
    } else {
      expect_quiet(run_ranks(size, check_operations));
    }
  }
}

// tests/distributed starts this test by mpirun.
TEST(Communicator, OperationsOverMpi) {
  const RankEnvironment environment = rank_environment([](const char* name) { return std::getenv(name); });
  if (environment.starter != Starter::mpi) GTEST_SKIP() << "not started by mpirun";
  std::unique_ptr<Communicator> ranks;
  try {
    ranks = connect_ranks(environment, {.timeout = 60});
  } catch (const Error& error) {
    if (error.code() == ExitCode::config) GTEST_SKIP() << error.what();
    throw;
  }
  EXPECT_STREQ(ranks->engine(), "MPI");
  check_operations(*ranks);
  ranks->finish();
}

TEST(Communicator, AFailedRankIsNamedToAllOthers) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> errors = run_ranks(3, [](Communicator& ranks) {
    ranks.barrier();
    if (ranks.rank() == 1) fail(ExitCode::data, "shard 7 is cut");
    at::Tensor value = at::ones({100000});
    ranks.all_reduce(value);
    ranks.barrier();
  });
  EXPECT_EQ(errors[0], "rank 1 failed: shard 7 is cut");
  EXPECT_EQ(errors[1], "shard 7 is cut");
  EXPECT_EQ(errors[2], "rank 1 failed: shard 7 is cut");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

TEST(Communicator, ARankThatLeavesEarlyIsNamed) {
  const std::vector<std::string> errors = run_ranks(2, [](Communicator& ranks) {
    if (ranks.rank() == 1) throw std::runtime_error("out of windows");
    ranks.barrier();
  });
  EXPECT_EQ(errors[0], "rank 1 failed: out of windows");
}

TEST(Communicator, AStuckRankIsNamedWithinTheTimeout) {
  for (const int stuck : {0, 1}) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> errors = run_ranks(
        2,
        [stuck](Communicator& ranks) {
          ranks.barrier();
          if (ranks.rank() == stuck) {
            for (int i = 0; i < 60; ++i) {
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              ranks.check();
            }
          }
          ranks.barrier();
        },
        1.0);
    for (const std::string& error : errors) {
      EXPECT_EQ(error, concat("rank ", stuck,
                              " is alive but has made no progress for 1 s (--timeout) outside of communication"));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

TEST(Communicator, LongWorkAndProgressAreNotTakenForStuck) {
  expect_quiet(run_ranks(
      2,
      [](Communicator& ranks) {
        if (ranks.rank() == 1) {
          const LongWork saving(ranks);
          std::this_thread::sleep_for(std::chrono::milliseconds(1800));
        } else {
          for (int i = 0; i < 12; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(150));
            ranks.progress();
          }
        }
        ranks.barrier();
      },
      1.0));
}

TEST(Communicator, MissingRanksAreNamed) {
  const Listener listener;
  try {
    meet_at_root(0, 3, endpoint_of(listener), listener, after_seconds(0.3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "ranks 1, 2 of 3 did not arrive in time (--timeout)");
  }
}

TEST(Communicator, StrangersAreTurnedAway) {
  const Listener listener, other;
  const Endpoint root = endpoint_of(listener);
  std::thread stranger([&] {
    const Socket socket = connect_to(root, after_seconds(5), "rank 0");
    socket.send(R"({"token":"guess","rank":1})", after_seconds(5), "rank 0");
    const Socket silent = connect_to(root, after_seconds(5), "rank 0");
    silent.send("no JSON", after_seconds(5), "rank 0");
    meet_at_root(1, 2, root, other, after_seconds(10));
  });
  const Meeting meeting = meet_at_root(0, 2, root, listener, after_seconds(10));
  stranger.join();
  EXPECT_EQ(meeting.links.size(), 1u);
  EXPECT_EQ(meeting.endpoints[1].port, other.port());
}

RankEnvironment environment_of(const std::map<std::string, std::string>& variables) {
  return rank_environment([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(RankEnvironment, ReadsEachStarter) {
  EXPECT_EQ(environment_of({}).size, 1);
  const RankEnvironment torchrun = environment_of({{"RANK", "3"},
                                                   {"WORLD_SIZE", "4"},
                                                   {"LOCAL_RANK", "1"},
                                                   {"LOCAL_WORLD_SIZE", "2"},
                                                   {"MASTER_ADDR", "node1"},
                                                   {"MASTER_PORT", "29500"},
                                                   {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                   {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_EQ(torchrun.starter, Starter::torchrun);
  EXPECT_EQ(torchrun.rank, 3);
  EXPECT_EQ(torchrun.local_size, 2);
  EXPECT_TRUE(torchrun.agent_store);
  EXPECT_EQ(torchrun.store_prefix, "satformer/2/");
  const RankEnvironment mpi = environment_of({{"OMPI_COMM_WORLD_SIZE", "2"},
                                              {"OMPI_COMM_WORLD_RANK", "1"},
                                              {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(mpi.starter, Starter::mpi);
  EXPECT_EQ(mpi.rank, 1);
  const std::map<std::string, std::string> slurm = {
      {"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "5"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}};
  EXPECT_EQ(environment_of(slurm).starter, Starter::slurm);
  EXPECT_EQ(environment_of(slurm).local_size, 4);
  // The variables of a batch script are no ranks.
  EXPECT_EQ(environment_of({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).size, 1);
}

TEST(RankEnvironment, RefusesContradictions) {
  using Variables = std::map<std::string, std::string>;
  const Variables out_of_range = {{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  EXPECT_EQ(error_text([&] { environment_of(out_of_range); }, ExitCode::config),
            "environment variable RANK is '4', expected a number from 0 to 3");
  const Variables no_port = {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}};
  EXPECT_EQ(error_text([&] { environment_of(no_port); }, ExitCode::config),
            "environment variable MASTER_PORT is missing, expected a number from 1 to 65535");
}

}  // namespace
}  // namespace satformer
