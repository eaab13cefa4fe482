#include "cli/python_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "io/file.h"

namespace satformer::cli {

PythonResult run_python(const std::string& python, const std::vector<std::string>& arguments,
                        const std::vector<std::string>& extra_environment, const std::string& folder) {
  const std::string output = folder + "/stdout", errors = folder + "/stderr";
  std::vector<std::string> words = {python};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv, environment;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<std::string> extra = extra_environment;
  for (std::string& variable : extra) environment.push_back(variable.data());
  for (char** variable = environ; *variable; ++variable) {
    const std::string_view text = *variable;
    bool replaced = false;
    for (const std::string& own : extra) replaced |= text.starts_with(own.substr(0, own.find('=') + 1));
    if (!replaced) environment.push_back(*variable);
  }
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), flags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), flags, 0600);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, python.c_str(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  PythonResult result;
  if (error == ENOENT || error == EACCES) {
    result.found = false;
    return result;
  }
  if (error != 0) fail_errno("start", python, error);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) fail_errno("wait for", python, errno);
  }
  result.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.output = read_file(output);
  result.errors = read_file(errors);
  return result;
}

std::string last_line_of(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return {};
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? -1 : begin));
}

}  // namespace satformer::cli
