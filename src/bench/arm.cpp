#include "bench/arm.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/process_memory.h"

extern char** environ;

namespace satformer {
namespace {

Json spec_json(WorkloadSpec spec) {
  Json json = ConfigBinding(spec).to_json();
  json["overrides"] = parse_json(spec.overrides, "bench");
  json["threads"] = spec.threads;
  json["recompute"] = spec.recompute;
  return json;
}

// A child process with its standard input and output on pipes.
class Child {
 public:
  explicit Child(std::vector<std::string> arguments) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) fail_errno("open a pipe for", arguments[0], errno);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const int error = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    if (error != 0) {
      close(to[1]);
      close(from[0]);
      fail_errno("start", arguments[0], error);
    }
    input_ = to[1];
    output_ = fdopen(from[0], "r");
  }
  ~Child() {
    if (input_ >= 0) close(input_);
    if (output_) std::fclose(output_);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }
  bool write(const std::string& line) { return ::write(input_, line.data(), line.size()) == std::ssize(line); }
  // False at the end of the child's output.
  bool read_line(std::string& line) {
    line.clear();
    for (int c; (c = std::fgetc(output_)) != EOF;) {
      if (c == '\n') return true;
      line += static_cast<char>(c);
    }
    return !line.empty();
  }
  int wait() {
    if (pid_ <= 0) return status_;
    while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1, status_ = 0;
  std::FILE* output_ = nullptr;
};

std::string ending(int status) {
  if (WIFSIGNALED(status)) return concat("was ended by signal ", WTERMSIG(status));
  return concat("ended with exit code ", WEXITSTATUS(status));
}

class WorkerArm : public Arm {
 public:
  WorkerArm(const std::string& name, const WorkloadSpec& spec)
      : name_(name), child_({"/proc/self/exe", "bench", "--worker", spec_json(spec).dump()}) {}
  const std::string& name() const override { return name_; }
  int pid() const override { return child_.pid(); }
  ArmMeasurement measure(double least) override {
    std::string line;
    if (!child_.write(concat(least, '\n')) || !child_.read_line(line)) {
      fail(ExitCode::system, "the process that measures ", name_, " ", ending(child_.wait()));
    }
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object()) fail(ExitCode::internal, "the process that measures ", name_, " answered '", line, "'");
    const double seconds = json.at("seconds").get<double>();
    return {seconds, json.at("tokens").get<double>() / seconds, json.at("peak_bytes").get<double>(),
            json.at("saved_bytes").get<double>()};
  }

 private:
  std::string name_;
  Child child_;
};

class CommandArm : public Arm {
 public:
  CommandArm(const std::string& name, const std::string& command) : name_(name), command_(command) {}
  const std::string& name() const override { return name_; }
  ArmMeasurement measure(double) override {
    Child child({"/bin/sh", "-c", command_});
    std::string line, last;
    while (child.read_line(line)) {
      if (!line.empty()) last = line;
    }
    const int status = child.wait();
    if (status != 0) fail(ExitCode::system, "the command of ", name_, " ", ending(status), ": ", command_);
    const Json json = Json::parse(last, nullptr, false);
    if (!json.is_object() || !json.contains("tok_s") || !json["tok_s"].is_number() || !(json["tok_s"] > 0)) {
      fail(ExitCode::usage, "the last line of the command of ", name_,
           " is no JSON object with a \"tok_s\" above 0: '", last.substr(0, 80), "'");
    }
    ArmMeasurement m;
    m.tokens_per_second = json["tok_s"].get<double>();
    if (json.contains("rss_mib") && json["rss_mib"].is_number())
      m.peak_bytes = json["rss_mib"].get<double>() * 1048576;
    return m;
  }

 private:
  std::string name_, command_;
};

}  // namespace

std::unique_ptr<Arm> start_worker(const std::string& name, const WorkloadSpec& spec) {
  return std::make_unique<WorkerArm>(name, spec);
}

std::unique_ptr<Arm> command_arm(const std::string& name, const std::string& command) {
  return std::make_unique<CommandArm>(name, command);
}

int serve_worker(const std::string& text) {
  const Json json = parse_json(text, "--worker", ExitCode::usage);
  WorkloadSpec spec;
  Json fields = json;
  spec.overrides = json.at("overrides").dump();
  spec.threads = json.at("threads").get<int>();
  spec.recompute = json.at("recompute").get<bool>();
  for (const char* key : {"overrides", "threads", "recompute"}) fields.erase(key);
  ConfigBinding(spec).apply_json(fields, "--worker");
  Workload workload(spec);
  for (std::string line; std::getline(std::cin, line);) {
    const Workload::Timing timing = workload.run(std::stod(line));
    const Json answer = {{"seconds", timing.seconds},
                         {"tokens", timing.tokens},
                         {"repetitions", timing.repetitions},
                         {"peak_bytes", peak_resident_bytes()},
                         {"saved_bytes", timing.saved_bytes}};
    std::printf("%s\n", answer.dump().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace satformer
