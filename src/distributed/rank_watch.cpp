#include "distributed/rank_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace satformer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int nobody = -1;

double seconds_since(Clock::time_point time) { return std::chrono::duration<double>(Clock::now() - time).count(); }

}  // namespace

RankWatch::RankWatch(const WatchOptions& options, std::vector<Socket> links) : options_(options) {
  const auto now = Clock::now();
  const auto add = [&](int rank, Socket link) {
    peers_.emplace_back();
    peers_.back().rank = rank;
    peers_.back().link = std::move(link);
    peers_.back().heard = peers_.back().advanced = now;
  };
  if (options.rank == 0) add(0, {});
  int rank = options.rank == 0 ? 1 : 0;
  for (Socket& link : links) add(rank++, std::move(link));
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) fail_errno("create", "a pipe", errno);
  thread_ = std::thread([this] { run(); });
}

RankWatch::~RankWatch() {
  stop_ = true;
  [[maybe_unused]] const auto written = write(wake_[1], "x", 1);
  thread_.join();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void RankWatch::check() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(failure_->code, failure_->text);
}

void RankWatch::check_after(double seconds) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return failure_.has_value(); });
  if (failure_) throw Error(failure_->code, failure_->text);
}

void RankWatch::fail(ExitCode code, const std::string& text) {
  std::unique_lock lock(mutex_);
  if (failure_) return;
  failure_ = RankFailure{options_.rank, code, concat("rank ", options_.rank, " failed: ", text)};
  failed_at_ = Clock::now();
  own_ = true;
  [[maybe_unused]] const auto written = write(wake_[1], "x", 1);
  changed_.wait_for(lock, std::chrono::seconds(3), [&] { return sent_; });
}

void RankWatch::finish() {
  finish_ = true;
  [[maybe_unused]] const auto written = write(wake_[1], "x", 1);
}

void RankWatch::record(RankFailure failure, int told_by) {
  std::string message;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::move(failure);
    failed_at_ = Clock::now();
    message = Json{{"failed",
                    {{"rank", failure_->rank}, {"code", static_cast<int>(failure_->code)}, {"text", failure_->text}}}}
                  .dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  send_to_all(message, told_by);
  changed_.notify_all();
}

void RankWatch::send_to_all(const std::string& message, int except) {
  for (Peer& peer : peers_) {
    if (!peer.link.open() || peer.rank == except) continue;
    try {
      peer.link.send(message, after_seconds(1), "a rank");
    } catch (const Error&) {
      // That the connection is gone is noticed where it is read.
    }
  }
}

void RankWatch::send_beats() {
  Peer own;
  own.progress = progress_;
  own.waiting = waiting_;
  own.busy = busy_ > 0;
  send_to_all(Json{{"beat", own.progress}, {"waiting", own.waiting}, {"busy", own.busy}}.dump(), nobody);
  Peer& first = peers_.front();
  if (options_.rank != 0 || first.rank != 0) return;
  if (first.progress != own.progress || own.busy) first.advanced = Clock::now();
  first.progress = own.progress;
  first.waiting = own.waiting;
  first.busy = own.busy;
  first.heard = Clock::now();
}

void RankWatch::receive(Peer& peer) {
  const std::string name = concat("rank ", peer.rank);
  Json message;
  try {
    message = Json::parse(peer.link.receive(after_seconds(5), name), nullptr, false);
  } catch (const Error&) {
    peer.link.close();
    if (peer.finished || finish_) return;
    record({peer.rank, ExitCode::system,
            concat(name, " was lost: its connection closed without a word, so its process was killed or crashed")},
           nobody);
    return;
  }
  peer.heard = Clock::now();
  if (!message.is_object()) return;
  if (message.contains("bye")) peer.finished = true;
  if (message.contains("failed")) {
    const Json& failed = message["failed"];
    record({failed.value("rank", peer.rank), static_cast<ExitCode>(failed.value("code", 70)),
            failed.value("text", name + " failed")},
           peer.rank);
  }
  if (!message.contains("beat")) return;
  const auto progress = message.value("beat", std::uint64_t{0});
  peer.waiting = message.value("waiting", false);
  peer.busy = message.value("busy", false);
  if (progress != peer.progress || peer.busy) peer.advanced = Clock::now();
  peer.progress = progress;
}

void RankWatch::look_for_silence() {
  for (const Peer& peer : peers_) {
    if (!peer.link.open() || peer.finished || seconds_since(peer.heard) < options_.timeout) continue;
    record({peer.rank, ExitCode::system,
            concat("rank ", peer.rank, " has given no sign of life for ", options_.timeout,
                   " s (--timeout): it is stopped, or its machine or network is down")},
           nobody);
  }
}

void RankWatch::look_for_standstill() {
  if (options_.rank != 0) return;
  bool all_wait = true, any = false;
  for (const Peer& peer : peers_) {
    if (peer.finished || (peer.rank != 0 && !peer.link.open())) return;
    any = true;
    const bool still = seconds_since(peer.advanced) >= options_.timeout && !peer.busy;
    all_wait = all_wait && still && peer.waiting;
    if (!still || peer.waiting) continue;
    record({peer.rank, ExitCode::system,
            concat("rank ", peer.rank, " is alive but has made no progress for ", options_.timeout,
                   " s (--timeout) outside of communication")},
           nobody);
  }
  if (any && all_wait) {
    record({0, ExitCode::system,
            concat("communication between the ranks has stood still for ", options_.timeout, " s (--timeout)")},
           nobody);
  }
}

// A process whose main thread does not come back to see the failure must not hold its place for ever.
void RankWatch::end_late_process() {
  RankFailure failure;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_ || busy_ > 0 || seconds_since(failed_at_) < options_.grace) return;
    failure = *failure_;
  }
  std::fprintf(stderr, "satformer: error: rank %d: ended, since %s\n", options_.rank, failure.text.c_str());
  std::_Exit(static_cast<int>(failure.code));
}

void RankWatch::run() {
  const double interval = std::clamp(options_.timeout / 10, 0.05, 1.0);
  Clock::time_point beat_due = Clock::now();
  bool said_bye = false;
  while (!stop_) {
    std::vector<pollfd> entries = {{wake_[0], POLLIN, 0}};
    for (const Peer& peer : peers_) entries.push_back({peer.link.descriptor(), POLLIN, 0});
    if (poll(entries.data(), entries.size(), static_cast<int>(interval * 1000)) < 0) continue;
    char drained[64];
    while (read(wake_[0], drained, sizeof drained) > 0) {
    }
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i].link.open() && entries[i + 1].revents != 0) receive(peers_[i]);
    }
    if (Clock::now() >= beat_due) {
      send_beats();
      beat_due = after_seconds(interval);
      look_for_silence();
      look_for_standstill();
    }
    std::string own;
    {
      const std::lock_guard lock(mutex_);
      if (own_ && !sent_) {
        own = Json{{"failed",
                    {{"rank", failure_->rank}, {"code", static_cast<int>(failure_->code)}, {"text", failure_->text}}}}
                  .dump(-1, ' ', false, Json::error_handler_t::replace);
      }
    }
    if (!own.empty()) {
      send_to_all(own, nobody);
      const std::lock_guard lock(mutex_);
      sent_ = true;
      changed_.notify_all();
    }
    if (finish_ && !said_bye) {
      send_to_all(R"({"bye":true})", nobody);
      said_bye = true;
    }
    end_late_process();
  }
  if (finish_ && !said_bye) send_to_all(R"({"bye":true})", nobody);
}

}  // namespace satformer
