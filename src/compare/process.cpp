#include "compare/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"

extern char** environ;

namespace satformer {
namespace {

bool is_configuration(const char* entry) {
  const std::string name(entry, std::strcspn(entry, "="));
  return name.starts_with("SATFORMER_") && name.find("__") != std::string::npos;
}

}  // namespace

Process::Process(const ProcessSpec& spec) {
  std::string name = "satformer";
  std::vector<char*> argv = {name.data()};
  std::vector<std::string> arguments = spec.arguments;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (char** entry = environ; *entry; ++entry) {
    if (!is_configuration(*entry)) environment.push_back(*entry);
  }
  environment.push_back(nullptr);
  const int log = ::open(spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) fail_errno("open", spec.log, errno);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {  // only calls that are safe between fork and exec
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(null, STDIN_FILENO);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    ::execve("/proc/self/exe", argv.data(), environment.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(log);
  ::close(null);
  if (pid_ < 0) fail_errno("start", spec.arguments.empty() ? "" : spec.arguments[0], error);
  ::setpgid(pid_, pid_);
}

Process::~Process() {
  if (code_ >= 0) return;
  stop();
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

bool Process::running() {
  if (code_ >= 0) return false;
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return true;
  if (ended < 0) {
    code_ = static_cast<int>(ExitCode::internal);
  } else {
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return false;
}

void Process::stop() {
  if (code_ < 0) ::kill(pid_, SIGTERM);
}

int run_process(const ProcessSpec& spec) {
  Process process(spec);
  while (process.running()) ::usleep(20000);
  return process.exit_code();
}

std::string last_line(const std::string& path) {
  constexpr std::streamoff longest = 1 << 16;
  std::ifstream file(path, std::ios::ate | std::ios::binary);
  if (!file) return {};
  file.seekg(std::max<std::streamoff>(0, file.tellg() - longest));
  std::string line, last;
  while (std::getline(file, line)) {
    std::string clean;
    for (const char c : line) {
      if (c == '\r') clean.clear();
      if (static_cast<unsigned char>(c) >= 0x20) clean += c;
    }
    if (!clean.empty()) last = clean;
  }
  return last;
}

}  // namespace satformer
