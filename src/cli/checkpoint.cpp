// satformer checkpoint: lists, verifies, prunes and compares the checkpoints of runs.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "checkpoint/model_io.h"
#include "checkpoint/run_folder.h"
#include "checkpoint/tensor_io.h"
#include "checkpoint/training_state.h"
#include "cli/command.h"
#include "cli/options.h"
#include "io/safetensors.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const std::string& path) { return fs::exists(path + "/state.json"); }

// The checkpoints that a path names: itself, or all of a run folder. Error(checkpoint) if there are none.
std::vector<std::string> checkpoints_of(const std::string& path) {
  if (!fs::exists(path)) fail(ExitCode::checkpoint, "no checkpoint at '", path, "': the path does not exist");
  if (is_checkpoint(path)) return {path};
  std::vector<std::string> paths;
  for (const RunFolder::Entry& entry : RunFolder(path).checkpoints()) paths.push_back(entry.path);
  if (paths.empty()) fail(ExitCode::checkpoint, "no checkpoint in '", path, "'");
  return paths;
}

bool is_final(const std::string& path) { return fs::exists(path + "/" + RunFolder::final_record); }

// Of verify: final/ is looked at too.
std::vector<std::string> recorded_folders(const std::string& path) {
  if (is_final(path)) return {path};
  std::vector<std::string> paths = checkpoints_of(path);
  if (const std::string end = RunFolder(path).final_path(); is_final(end)) paths.push_back(end);
  return paths;
}

double folder_bytes(const std::string& path) {
  double bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.is_regular_file()) bytes += static_cast<double>(entry.file_size());
  }
  return bytes;
}

int list(const std::string& path) {
  const std::vector<std::string> checkpoints = checkpoints_of(path);
  std::printf("%10s %16s %8s %12s   %s\n", "step", "tokens", "windows", "size", "path");
  for (const std::string& checkpoint : checkpoints) {
    const TrainingState state = read_training_state(checkpoint);
    std::printf("%10lld %16lld %8lld %12s   %s\n", static_cast<long long>(state.step),
                static_cast<long long>(state.tokens), static_cast<long long>(state.windows),
                human_bytes(folder_bytes(checkpoint)).c_str(), checkpoint.c_str());
  }
  return 0;
}

int verify(const std::vector<std::string>& paths) {
  int damaged = 0;
  for (const std::string& path : paths) {
    for (const std::string& checkpoint : recorded_folders(path)) {
      try {
        if (is_final(checkpoint)) {
          verify_model_files(checkpoint);
        } else {
          read_training_state(checkpoint);
          verify_checkpoint(checkpoint);
        }
        std::printf("whole    %s\n", checkpoint.c_str());
      } catch (const Error& error) {
        if (error.code() != ExitCode::checkpoint) throw;
        ++damaged;
        std::printf("damaged  %s: %s\n", checkpoint.c_str(), error.what());
      }
    }
  }
  return damaged == 0 ? 0 : static_cast<int>(ExitCode::checkpoint);
}

int prune(const std::string& path, std::int64_t keep) {
  const RunFolder folder(path);
  const auto before = folder.checkpoints();
  if (before.empty()) fail(ExitCode::checkpoint, "no checkpoint in '", path, "'");
  const RunLock lock(folder);
  // What stays must be whole: a damaged newest checkpoint must not cost the good ones before it.
  const std::size_t kept = std::min(before.size(), static_cast<std::size_t>(keep));
  for (std::size_t i = before.size() - kept; i < before.size(); ++i) verify_checkpoint(before[i].path);
  folder.prune(keep);
  std::printf("removed %zu, kept %zu\n", before.size() - folder.checkpoints().size(), folder.checkpoints().size());
  return 0;
}

double largest_difference(const TensorView& a, const TensorView& b) {
  const at::Tensor x = tensor_from_view(a).to(at::kDouble), y = tensor_from_view(b).to(at::kDouble);
  return x.numel() == 0 ? 0.0 : (x - y).abs().max().item<double>();
}

// Prints what differs between two checkpoints or models; 0 if nothing does.
int diff(const std::string& first, const std::string& second) {
  const auto directory = [](const std::string& path) {
    return is_checkpoint(path) ? path : resolve_model_directory(path);
  };
  const std::string a = directory(first), b = directory(second);
  std::int64_t differing = 0, equal = 0;
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const bool in_a = fs::exists(a + "/" + name), in_b = fs::exists(b + "/" + name);
    if (in_a != in_b) {
      ++differing;
      std::printf("%s is only in %s\n", name, in_a ? a.c_str() : b.c_str());
    }
    if (!in_a || !in_b) continue;
    const SafetensorsFile x(a + "/" + name), y(b + "/" + name);
    for (const TensorView& tensor : x.tensors()) {
      const TensorView* other = y.find(tensor.name);
      if (!other) {
        ++differing;
        std::printf("%-60s only in %s\n", tensor.name.c_str(), a.c_str());
      } else if (other->shape != tensor.shape || other->dtype != tensor.dtype) {
        ++differing;
        std::printf("%-60s %s %s against %s %s\n", tensor.name.c_str(), tensor.dtype.c_str(),
                    shape_text(tensor.shape).c_str(), other->dtype.c_str(), shape_text(other->shape).c_str());
      } else if (std::equal(tensor.data.begin(), tensor.data.end(), other->data.begin())) {
        ++equal;
      } else {
        ++differing;
        std::printf("%-60s max |difference| %.3g\n", tensor.name.c_str(), largest_difference(tensor, *other));
      }
    }
    for (const TensorView& tensor : y.tensors()) {
      if (x.find(tensor.name)) continue;
      ++differing;
      std::printf("%-60s only in %s\n", tensor.name.c_str(), b.c_str());
    }
  }
  const Json before = read_model_config(a).flatten(), after = read_model_config(b).flatten();
  for (const auto& [key, value] : before.items()) {
    const Json other = after.contains(key) ? after[key] : Json();
    if (value == other) continue;
    ++differing;
    std::printf("config %s: %s against %s\n", key.c_str(), value.dump().c_str(), other.dump().c_str());
  }
  std::printf("%lld tensors equal, %lld differences\n", static_cast<long long>(equal),
              static_cast<long long>(differing));
  return differing == 0 ? 0 : static_cast<int>(ExitCode::check_failed);
}

}  // namespace

int run_checkpoint(std::span<const std::string> arguments) {
  std::vector<std::string> words;
  std::int64_t keep = 0;
  Options options("checkpoint",
                  "ls RUN: steps, tokens and sizes. verify PATH...: checks every file of checkpoints, of final/ or "
                  "of whole runs against its SHA-256. prune RUN --keep N: removes all but the newest N, which are "
                  "verified first. "
                  "diff A B: tensors and settings in which two checkpoints or models differ; exit code 1 if any.");
  options.add("action", words, "ls, verify, prune or diff, and what it acts on", true)
      .add("--keep", keep, "prune: how many stay");
  if (!options.parse(arguments)) return 0;
  const std::string action = words[0];
  const std::vector<std::string> paths(words.begin() + 1, words.end());
  const auto expect = [&](std::size_t count, const char* what) {
    if (paths.size() != count)
      fail(ExitCode::usage, "checkpoint ", action, " needs ", what, ", not ", paths.size(), " paths");
  };
  if (keep != 0 && action != "prune") fail(ExitCode::usage, "--keep belongs to checkpoint prune, not to ", action);
  if (action == "ls") {
    expect(1, "one run folder or checkpoint");
    return list(paths[0]);
  }
  if (action == "verify") {
    if (paths.empty()) fail(ExitCode::usage, "checkpoint verify needs a run folder or checkpoint");
    return verify(paths);
  }
  if (action == "prune") {
    expect(1, "one run folder");
    if (keep < 1) fail(ExitCode::usage, "checkpoint prune needs --keep of at least 1, not ", keep);
    return prune(paths[0], keep);
  }
  if (action == "diff") {
    expect(2, "two checkpoints or models");
    return diff(paths[0], paths[1]);
  }
  const std::vector<std::string> known = {"ls", "verify", "prune", "diff"};
  fail(ExitCode::usage, "checkpoint '", action, "' is not one of: ls, verify, prune, diff.",
       did_you_mean(action, known));
}

}  // namespace satformer::cli
