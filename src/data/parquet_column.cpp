#include "data/parquet_column.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "data/byte_reader.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;

constexpr const char* helper_name = "satformer-parquet";

std::size_t read_some(int descriptor, char* to, std::size_t size) {
  ssize_t count = 0;
  while ((count = ::read(descriptor, to, size)) < 0 && errno == EINTR) {
  }
  if (count < 0) fail_errno("read from", helper_name, errno);
  return static_cast<std::size_t>(count);
}

void close_descriptor(int& descriptor) {
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

}  // namespace

std::string find_parquet_helper() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error && ::access((program.parent_path() / helper_name).c_str(), X_OK) == 0) {
    return (program.parent_path() / helper_name).string();
  }
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path ? path : ""; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, end)) / helper_name;
    if (end > 0 && ::access(candidate.c_str(), X_OK) == 0) return candidate.string();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return {};
}

ParquetColumn::ParquetColumn(std::string path, const std::string& column, const std::string& helper)
    : path_(std::move(path)) {
  if (helper.empty()) {
    fail(ExitCode::system, path_, ": reading Parquet needs the program ", helper_name,
         " beside satformer or in PATH; `make build` makes it once `make setup` could fetch the pyarrow package");
  }
  int output[2], errors[2];
  if (::pipe2(output, O_CLOEXEC) != 0) fail_errno("make a pipe to", helper, errno);
  if (::pipe2(errors, O_CLOEXEC) != 0) {
    const int error = errno;
    ::close(output[0]);
    ::close(output[1]);
    fail_errno("make a pipe to", helper, error);
  }
  output_ = output[0];
  errors_ = errors[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);  // it ends when nobody reads on
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::string name = helper, file = path_, key = column;
  char* arguments[] = {name.data(), file.data(), column == whole_rows ? nullptr : key.data(), nullptr};
  const int status = ::posix_spawn(&process_, helper.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(output[1]);
  ::close(errors[1]);
  if (status != 0) {
    process_ = -1;
    close_descriptor(output_);
    close_descriptor(errors_);
    fail_errno("start", helper, status);
  }
  try {
    std::memcpy(&rows_, take(sizeof rows_).data(), sizeof rows_);
  } catch (...) {
    close_descriptor(output_);
    close_descriptor(errors_);
    if (process_ >= 0) wait();
    throw;
  }
}

ParquetColumn::~ParquetColumn() {
  close_descriptor(output_);
  close_descriptor(errors_);
  if (process_ >= 0) wait();
}

int ParquetColumn::wait() {
  int status = 0;
  while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
  return status;
}

std::string_view ParquetColumn::take(std::size_t size) {
  if (buffer_.size() - from_ < size) {
    buffer_.erase(0, std::exchange(from_, 0));
    std::size_t held = buffer_.size();
    buffer_.resize(std::max(size, block_bytes));
    while (held < size) {
      const std::size_t count = read_some(output_, buffer_.data() + held, buffer_.size() - held);
      if (count == 0) fail_with_helper();
      held += count;
    }
    buffer_.resize(held);
  }
  return std::string_view(buffer_).substr(std::exchange(from_, from_ + size), size);
}

bool ParquetColumn::next(Value& value) {
  std::uint32_t size = 0;
  std::memcpy(&size, take(sizeof size).data(), sizeof size);
  value = {};
  if (size == values_end) {
    if (read_ != rows_) fail(ExitCode::data, path_, ": the file ends after ", read_, " of ", rows_, " rows");
    return false;
  }
  ++read_;
  value.null = size == value_is_null;
  value.too_long = size == value_too_long;
  if (!value.null && !value.too_long) value.text = take(size);
  return true;
}

// The helper has ended before the end of the values: its exit code and message become this process's.
void ParquetColumn::fail_with_helper() {
  std::string message(4096, '\0');
  std::size_t size = 0;
  while (size < message.size()) {
    const std::size_t count = read_some(errors_, message.data() + size, message.size() - size);
    if (count == 0) break;
    size += count;
  }
  message.resize(size);
  message.resize(std::min(message.find('\n'), message.size()));
  const int status = wait();
  if (WIFEXITED(status) && !message.empty()) {
    for (const ExitCode code : {ExitCode::data, ExitCode::system, ExitCode::memory}) {
      if (WEXITSTATUS(status) == static_cast<int>(code)) throw Error(code, message);
    }
  }
  fail(ExitCode::data, path_, ": ", helper_name, WIFSIGNALED(status) ? " was ended by signal " : " failed with code ",
       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), " while it read this file",
       message.empty() ? "" : ": " + message);
}

}  // namespace satformer
