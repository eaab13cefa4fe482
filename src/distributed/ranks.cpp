#include "distributed/ranks.h"

#include <c10/util/Logging.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "distributed/engines.h"

namespace satformer {
namespace {

std::string first_line(const char* text) {
  const std::string all = text;
  return all.substr(0, all.find('\n'));
}

// c10d logs every failed attempt with a stack of calls; the error that follows says it in a line.
class QuietC10d {
 public:
  QuietC10d() : level_(FLAGS_caffe2_log_level) {
    if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  ~QuietC10d() { FLAGS_caffe2_log_level = level_; }
  QuietC10d(const QuietC10d&) = delete;
  QuietC10d& operator=(const QuietC10d&) = delete;

 private:
  const int level_;
};

// c10d's store, which every Python program of torchrun's uses too. Where the agent serves it, all ranks are clients.
c10::intrusive_ptr<c10d::TCPStore> open_store(const RankEnvironment& e, double timeout) {
  c10d::TCPStoreOptions options;
  options.port = e.store_port;
  options.isServer = !e.agent_store && e.rank == 0;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
  const QuietC10d quiet;
  try {
    return c10::make_intrusive<c10d::TCPStore>(e.store_host, options);
  } catch (const std::exception& error) {
    fail(ExitCode::system, options.isServer ? "cannot serve" : "cannot reach", " the store of the ranks at ",
         e.store_host, ":", e.store_port, " (MASTER_ADDR, MASTER_PORT): ", first_line(error.what()));
  }
}

// Rank 0's endpoint, through the store.
Endpoint share_root(c10d::TCPStore& store, const RankEnvironment& e, const Listener& listener) {
  const QuietC10d quiet;
  const std::string key = e.store_prefix + "root";
  try {
    if (e.rank == 0) {
      const Endpoint own = endpoint_of(listener);
      const std::string text = own.to_text();
      store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
      return own;
    }
    const std::vector<std::uint8_t> text = store.get(key);
    return Endpoint::from_text(std::string(text.begin(), text.end()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    fail(ExitCode::system, "rank 0 did not arrive in time (--timeout) at the store at ", e.store_host, ":",
         e.store_port);
  }
}

}  // namespace

std::unique_ptr<Communicator> connect_ranks(const RankEnvironment& environment, const RankOptions& options) {
  if (environment.size == 1) return make_one_process();
  const Deadline deadline = after_seconds(options.timeout);
  const bool sockets = environment.starter == Starter::torchrun;
  RankEnvironment e = environment;
  const Listener listener;
  c10::intrusive_ptr<c10d::TCPStore> store;  // rank 0 may be its server, so it stays until all have met
  Endpoint root;
  if (sockets) {
    store = open_store(e, options.timeout);
    root = share_root(*store, e, listener);
  } else {
    e = mpi_start(e);
    root = Endpoint::from_text(mpi_share(e.rank == 0 ? endpoint_of(listener).to_text() : ""));
  }
  Meeting meeting = meet_at_root(e.rank, e.size, root, listener, deadline);
  WatchOptions watch{.rank = e.rank, .size = e.size, .timeout = options.timeout};
  auto rank_watch = std::make_unique<RankWatch>(watch, std::move(meeting.links));
  if (sockets) return make_ring(e, meeting, listener, std::move(rank_watch), deadline);
  return make_mpi(e, std::move(rank_watch));
}

int threads_of_rank(std::int64_t asked, const Communicator& ranks) {
  if (asked != 0 || ranks.size() == 1 || std::getenv("OMP_NUM_THREADS")) return static_cast<int>(asked);
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : cores;
  // A starter that binds each rank to cores has shared them out already.
  return allowed < cores ? allowed : std::max(1, cores / std::max(1, ranks.local_size()));
}

std::string device_of_rank(const std::string& asked, const Communicator& ranks) {
  return ranks.size() > 1 && asked == "cuda" ? concat("cuda:", ranks.local_rank()) : asked;
}

}  // namespace satformer
