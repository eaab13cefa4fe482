#include "io/mapping_faults.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace satformer {
namespace {

// The handler may run at any instruction of any thread, so it reads nothing but these. A slot is taken by setting
// `begin`, last, and free while that is null.
struct Mapping {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<std::size_t> size{0};
  std::atomic<char*> path{nullptr};
  std::atomic<bool> taken{false};
};
std::array<Mapping, 4096> mappings;

void write_text(const char* text) {
  std::size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t count = ::write(STDERR_FILENO, text, left);
    if (count <= 0) return;
    text += count;
    left -= static_cast<std::size_t>(count);
  }
}

void handle(int, siginfo_t* info, void*) {
  const auto* at = static_cast<const std::byte*>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const std::byte* begin = mapping.begin.load(std::memory_order_acquire);
    if (!begin || at < begin || at >= begin + mapping.size.load(std::memory_order_relaxed)) continue;
    write_text("satformer: error: cannot read '");
    write_text(mapping.path.load(std::memory_order_relaxed));
    write_text("': it became shorter while it was in use, or its disk failed\n");
    ::_exit(static_cast<int>(ExitCode::system));
  }
  // Not ours. Under the default the signal ends the process as soon as this returns.
  ::signal(SIGBUS, SIG_DFL);
  ::raise(SIGBUS);
}

}  // namespace

void check_not_cut(const MappedFile& file) {
  struct stat status {};
  // A file that is gone or was replaced is still whole in the mapping, unless its successor is shorter: then who
  // knows.
  if (::stat(file.path().c_str(), &status) != 0) return;
  if (static_cast<std::uintmax_t>(status.st_size) < file.bytes().size()) {
    fail(ExitCode::system, "cannot read '", file.path(), "': it became shorter while it was in use");
  }
}

void report_mapping_faults() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

void note_mapping(const std::byte* begin, std::size_t size, const std::string& path) {
  for (Mapping& mapping : mappings) {
    bool taken = false;
    if (!mapping.taken.compare_exchange_strong(taken, true)) continue;
    mapping.size.store(size, std::memory_order_relaxed);
    mapping.path.store(::strdup(path.c_str()), std::memory_order_relaxed);
    mapping.begin.store(begin, std::memory_order_release);
    return;
  }
}

void forget_mapping(const std::byte* begin) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin.load(std::memory_order_relaxed) != begin) continue;
    mapping.begin.store(nullptr, std::memory_order_release);
    std::free(mapping.path.exchange(nullptr));
    mapping.taken.store(false);
    return;
  }
}

}  // namespace satformer
