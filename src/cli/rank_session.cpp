#include "cli/rank_session.h"

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "base/json.h"

namespace satformer::cli {
namespace {

// torchrun reads why a rank failed from here and shows the call stack of the first, where others print Python's.
void write_error_file(const std::string& message) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  const std::string now = std::to_string(static_cast<long long>(std::time(nullptr)));
  const Json json = {
      {"message", {{"message", message}, {"extraInfo", {{"py_callstack", message}, {"timestamp", now}}}}}};
  std::ofstream(path) << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

RankEnvironment environment_of_process() {
  return rank_environment([](const char* name) { return std::getenv(name); });
}

}  // namespace

RankSession::RankSession(double timeout) {
  if (!(timeout > 0 && timeout <= 1e9)) fail(ExitCode::usage, "--timeout ", timeout, " must be above 0 seconds");
  const RankEnvironment environment = environment_of_process();
  try {
    ranks_ = connect_ranks(environment, {.timeout = timeout});
  } catch (const Error& error) {
    const std::string text = concat("rank ", environment.rank, ": ", error.what());
    write_error_file(text);
    fail(error.code(), text);
  }
}

int RankSession::run(const std::function<int(Communicator&)>& work) {
  const auto failed = [&](ExitCode code, const std::string& what) -> std::string {
    ranks_->report_failure(code, what);
    const std::string text = ranks_->size() > 1 ? concat("rank ", ranks_->rank(), ": ", what) : what;
    write_error_file(text);
    return text;
  };
  try {
    const int code = work(*ranks_);
    ranks_->finish();
    return code;
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    fail(failure.code, failed(failure.code, failure.message));
  }
}

}  // namespace satformer::cli
