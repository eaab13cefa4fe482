// Runs a command on all ranks that torchrun, mpirun or srun started, or in this process alone.
#pragma once

#include <functional>
#include <memory>

#include "distributed/communicator.h"
#include "distributed/ranks.h"

namespace satformer::cli {

class RankSession {
 public:
  explicit RankSession(double timeout);  // meets the other ranks; RankOptions::timeout

  // Calls `work` and gives back its exit code once all ranks are done. An error is told to the other ranks, names
  // this one, and reaches torchrun in its error file.
  int run(const std::function<int(Communicator&)>& work);

 private:
  std::unique_ptr<Communicator> ranks_;
};

}  // namespace satformer::cli
