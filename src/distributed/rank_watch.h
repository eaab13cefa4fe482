// Notices ranks that are killed, stopped or stuck, and carries the error of one rank to all others, beside whatever
// transports tensors. Every rank has a connection to rank 0 and a thread that sends a sign of life over it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "distributed/socket.h"

namespace satformer {

struct WatchOptions {
  int rank = 0, size = 1;
  double timeout = 300;  // seconds without a sign of life, or without progress outside of declared long work
  double grace = 15;     // seconds that a process has to end by itself once a rank has failed; then it is ended
};

struct RankFailure {
  int rank = 0;
  ExitCode code = ExitCode::system;
  std::string text;  // names the rank
};

class RankWatch {
 public:
  // links: on rank 0 those to ranks 1, 2, ...; on another rank the one to rank 0.
  RankWatch(const WatchOptions& options, std::vector<Socket> links);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  void progress() { progress_.fetch_add(1, std::memory_order_relaxed); }
  void set_busy(bool busy) { busy_ += busy ? 1 : -1; }  // long work that makes no progress: saving, reading all data
  void set_waiting(bool waiting) { waiting_ = waiting; }  // for other ranks
  void check() const;                                     // throws the failure that is known, if any
  // The same, after waiting for one to become known: why a connection broke is told by another one.
  void check_after(double seconds) const;
  // Tells all ranks that this one failed; waits until that is sent. Without effect where a failure is known already.
  void fail(ExitCode code, const std::string& text);
  void finish();  // this rank is done: its connection may end

 private:
  struct Peer {
    int rank = 0;
    Socket link;  // not open: this process itself, or lost, or finished
    std::chrono::steady_clock::time_point heard, advanced;
    std::uint64_t progress = 0;
    bool waiting = false, busy = false, finished = false;
  };
  void run();
  void receive(Peer& peer);
  void send_to_all(const std::string& message, int except);
  void send_beats();
  void look_for_silence();
  void look_for_standstill();
  void record(RankFailure failure, int told_by);  // tells all others
  void end_late_process();

  const WatchOptions options_;
  std::vector<Peer> peers_;  // touched by the thread alone
  int wake_[2] = {-1, -1};
  std::atomic<std::uint64_t> progress_{0};
  std::atomic<int> busy_{0};  // how deep in long work
  std::atomic<bool> waiting_{false}, finish_{false}, stop_{false};

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<RankFailure> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  bool own_ = false, sent_ = false;  // the failure is this rank's; the others were told

  std::thread thread_;
};

}  // namespace satformer
