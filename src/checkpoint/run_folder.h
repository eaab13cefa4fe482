// A training run on disk:
//   <run>/config.json  metrics.jsonl  checkpoints/step-00001000/...  final/
// A checkpoint appears under its name only when it is complete and on disk; until then it is ".tmp-step-00001000".
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace satformer {

class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string metrics_path() const { return path_ + "/metrics.jsonl"; }
  std::string config_path() const { return path_ + "/config.json"; }
  std::string samples_path() const { return path_ + "/samples.jsonl"; }
  std::string final_path() const { return path_ + "/final"; }
  // The step whose model final/ holds, from the file beside it; -1 if it is not known.
  std::int64_t final_step() const;
  static constexpr const char* final_record = "training.json";  // {"step": N, ...}
  std::string checkpoint_path(std::int64_t step) const;

  // Creates the folder and tries a write in it. Error(system) if that fails.
  void create() const;
  // Free bytes of its file system (of the nearest existing parent).
  double free_bytes() const;

  struct Entry {
    std::int64_t step;
    std::string path;
  };
  std::vector<Entry> checkpoints() const;  // complete ones, oldest first
  // Removes what interrupted saves left behind, and gives a folder that was being replaced its name back.
  void remove_leftovers() const;
  // Removes the oldest complete checkpoints until `keep` remain (0 keeps all).
  void prune(std::int64_t keep) const;
  // Removes checkpoints after `step`; with step < 0 all of them, metrics, samples and final/.
  void clear_after(std::int64_t step) const;

  // Calls write(temporary folder), syncs all it wrote and puts it in place as `target`, replacing a folder of that
  // name in one step. If anything fails, the temporary folder is removed and `target` is as it was.
  void replace_folder(const std::string& target,
                      const std::function<void(const std::string& temporary)>& write) const;

 private:
  void remove_folder(const std::string& path) const;  // which passes for a folder of the run until it is gone

  std::string path_;
};

// One process per run folder: holds an advisory lock while it lives. Error(system) if another process has it,
// saying `who` and the folder.
class RunLock {
 public:
  explicit RunLock(const RunFolder& folder, const char* who = "another process is training in");
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace satformer
