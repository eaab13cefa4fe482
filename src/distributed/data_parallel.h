// Gradients of one model that every rank holds, summed over ranks in buckets while backward still computes others.
//
// A bucket is the gradients of some parameters in one flat fp32 tensor, cut into equal parts, one for each rank.
// Parts are summed by reduce-scatter. Plainly, all ranks then gather all parts; sharded (ZeRO-1), each keeps its own
// part, updates that part of the parameters alone, and the updated parameters are gathered. Both give equal bits.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "nn/parameters.h"

namespace satformer {

struct DataParallelOptions {
  bool sharded = false;
  std::int64_t bucket_bytes = 25 << 20;
};

class DataParallel {
 public:
  // Both outlive it. Parameters keep their storage from here on.
  DataParallel(ParameterStore& parameters, Communicator& ranks, const DataParallelOptions& options);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // The backward that follows completes the gradients: each bucket is sent as soon as it is full. Optional, and not
  // for a backward that adds to a parameter's gradient more than once (recomputed layers).
  void begin_last_backward();
  // Sends what is left and waits until all parts are summed; the parameters' own gradients stay as they are.
  // `scalars` are summed as well, in the order of ranks.
  void finish_backward(std::vector<double>& scalars);
  // Global norm of the summed gradients, equal on all ranks; NaN or infinite if an element is.
  double norm();
  // Plain: the parameters' gradients become the sums. A gradient that no rank has stays undefined.
  void store_gradients();

  // Sharded: the stretches of parameters that this rank updates, in flat views of their storage.
  struct Stretch {
    std::size_t parameter = 0;  // number in the store
    std::int64_t begin = 0;     // first element of the parameter
    at::Tensor value;           // [n] in the parameter's type
    at::Tensor gradient;        // [n] summed, fp32; valid after finish_backward()
  };
  const std::vector<Stretch>& stretches() const { return stretches_; }
  bool has_gradient(std::size_t parameter) const { return present_[parameter] > 0; }  // on any rank
  // Sharded: every rank's updated stretches reach all ranks.
  void gather_parameters();
  // Values that belong to stretches, one flat fp32 tensor each, as whole flat tensors of the parameters, on all
  // ranks.
  std::vector<at::Tensor> gather_stretches(const std::vector<at::Tensor>& values);

 private:
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::vector<std::int64_t> offsets;  // of each in `whole`
    std::int64_t length = 0;            // padded
    std::size_t missing = 0;            // gradients that the running backward has still to give
    at::Tensor whole, part;             // whole: plain, or while it is sent
    std::vector<Pending> pending;
  };
  struct Hook;

  void make_buckets(std::int64_t bucket_bytes);
  void make_stretches();
  void gradient_ready(std::size_t parameter);
  void send(Bucket& bucket);
  at::Tensor flat_parameter(std::size_t parameter) const;

  ParameterStore& parameters_;
  Communicator& ranks_;
  const bool sharded_;
  std::vector<Bucket> buckets_;         // in the order in which backward fills them, roughly
  std::vector<std::size_t> bucket_of_;  // of each parameter
  std::vector<Stretch> stretches_;
  std::vector<double> present_;  // ranks with a gradient of the parameter, in the last step
  std::size_t next_ = 0;         // bucket to be sent next: the order is the same on all ranks
  bool overlapping_ = false;
};

// The parameters of rank 0, on all ranks.
void broadcast_parameters(ParameterStore& parameters, Communicator& ranks);

}  // namespace satformer
