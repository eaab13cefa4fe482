// Which process of how many this one is, from the environment that its starter set.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace satformer {

enum class Starter { none, torchrun, mpi, slurm };

struct RankEnvironment {
  Starter starter = Starter::none;
  int rank = 0, size = 1;              // of the run; with `mpi` and `slurm` MPI has the last word
  int local_rank = 0, local_size = 1;  // on this machine
  // Rendezvous of torchrun: its store's address, whether torchrun serves it (else rank 0 does), a prefix of this
  // start.
  std::string store_host = {};
  std::uint16_t store_port = 0;
  bool agent_store = false;
  std::string store_prefix = {};
};

// torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK, TORCHELASTIC_*), mpirun (OMPI_COMM_WORLD_*), srun
// (SLURM_*; with MASTER_ADDR and MASTER_PORT it needs no MPI). `get` gives a variable or nullptr. Error(config) for
// variables that contradict one another.
RankEnvironment rank_environment(const std::function<const char*(const char*)>& get);

const char* starter_name(Starter starter);

}  // namespace satformer
