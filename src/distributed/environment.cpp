#include "distributed/environment.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace satformer {
namespace {

using Getter = std::function<const char*(const char*)>;

bool is_set(const Getter& get, const char* name) {
  const char* value = get(name);
  return value && *value;
}

int number(const Getter& get, const char* name, int least, int most) {
  const char* text = get(name);
  int value = 0;
  const char* end = text ? text + std::strlen(text) : nullptr;
  const auto parsed =
      text ? std::from_chars(text, end, value) : std::from_chars_result{nullptr, std::errc::invalid_argument};
  if (parsed.ec != std::errc() || parsed.ptr != end || value < least || value > most) {
    fail(ExitCode::config, "environment variable ", name, " is ", text ? concat("'", text, "'") : "missing",
         ", expected a number from ", least, " to ", most);
  }
  return value;
}

constexpr int most_ranks = 1 << 20;

void read_ranks(const Getter& get, const char* rank, const char* size, RankEnvironment& e) {
  e.size = number(get, size, 1, most_ranks);
  e.rank = number(get, rank, 0, e.size - 1);
}

void read_store(const Getter& get, RankEnvironment& e) {
  e.store_host = get("MASTER_ADDR");
  e.store_port = static_cast<std::uint16_t>(number(get, "MASTER_PORT", 1, 65535));
  const char* agent = get("TORCHELASTIC_USE_AGENT_STORE");
  e.agent_store = agent && std::string_view(agent) == "True";
  const char* restart = get("TORCHELASTIC_RESTART_COUNT");
  e.store_prefix = concat("satformer/", restart ? restart : "0", "/");
}

}  // namespace

RankEnvironment rank_environment(const Getter& get) {
  RankEnvironment e;
  if (is_set(get, "RANK") && is_set(get, "WORLD_SIZE") && is_set(get, "MASTER_ADDR")) {
    e.starter = Starter::torchrun;
    read_ranks(get, "RANK", "WORLD_SIZE", e);
    if (is_set(get, "LOCAL_RANK")) e.local_rank = number(get, "LOCAL_RANK", 0, most_ranks);
    if (is_set(get, "LOCAL_WORLD_SIZE")) e.local_size = number(get, "LOCAL_WORLD_SIZE", 1, most_ranks);
    read_store(get, e);
  } else if (is_set(get, "OMPI_COMM_WORLD_SIZE")) {
    e.starter = Starter::mpi;
    read_ranks(get, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", e);
    e.local_rank = number(get, "OMPI_COMM_WORLD_LOCAL_RANK", 0, most_ranks);
    e.local_size = number(get, "OMPI_COMM_WORLD_LOCAL_SIZE", 1, most_ranks);
  } else if (is_set(get, "SLURM_STEP_NUM_TASKS") &&
             is_set(get, "SLURM_PROCID")) {  // a batch script has only the latter
    e.starter = Starter::slurm;
    read_ranks(get, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", e);
    if (is_set(get, "SLURM_LOCALID")) e.local_rank = number(get, "SLURM_LOCALID", 0, most_ranks);
    if (const char* tasks = get("SLURM_STEP_TASKS_PER_NODE")) {  // "4(x2),3": near enough to share out cores
      std::from_chars(tasks, tasks + std::strlen(tasks), e.local_size);
    }
    if (is_set(get, "MASTER_ADDR")) {
      e.starter = Starter::torchrun;
      read_store(get, e);
    }
  }
  return e;
}

const char* starter_name(Starter starter) {
  switch (starter) {
    case Starter::torchrun:
      return "torchrun";
    case Starter::mpi:
      return "mpirun";
    case Starter::slurm:
      return "srun";
    case Starter::none:
      break;
  }
  return "no starter";
}

}  // namespace satformer
