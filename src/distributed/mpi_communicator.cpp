#include <algorithm>
#include <chrono>
#include <thread>

#include "distributed/engines.h"
#include "distributed/threaded_communicator.h"

#ifdef SATFORMER_MPI

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace satformer {
namespace {

constexpr std::int64_t largest_piece = 1 << 28;  // MPI counts elements in an int

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(ExitCode::system, "MPI cannot ", what, ": ", text);
}

MPI_Datatype type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return MPI_FLOAT;
    case at::kDouble:
      return MPI_DOUBLE;
    case at::kLong:
      return MPI_INT64_T;
    case at::kByte:
      return MPI_UINT8_T;
    default:
      fail(ExitCode::internal, "MPI ranks cannot send tensors of this type");
  }
}

class MpiCommunicator : public ThreadedCommunicator {
 public:
  MpiCommunicator(const RankEnvironment& environment, std::unique_ptr<RankWatch> watch)
      : ThreadedCommunicator(environment, std::move(watch)) {}
  // After a failure MPI is left as it is: to finalise it would wait for the lost rank.
  ~MpiCommunicator() override {
    stop_thread();
    if (finished()) MPI_Finalize();
  }
  const char* engine() const override { return "MPI"; }

 protected:
  void do_all_reduce(at::Tensor& tensor) override {
    in_pieces(tensor, [&](void* data, int count) {
      MPI_Request request;
      check_mpi(MPI_Iallreduce(MPI_IN_PLACE, data, count, type_of(tensor), MPI_SUM, MPI_COMM_WORLD, &request),
                "add up");
      wait(request);
    });
  }
  void do_reduce_scatter(at::Tensor& whole, at::Tensor& part) override {
    MPI_Request request;
    check_mpi(MPI_Ireduce_scatter_block(whole.const_data_ptr(), part.mutable_data_ptr(), count_of(part),
                                        type_of(part), MPI_SUM, MPI_COMM_WORLD, &request),
              "reduce and scatter");
    wait(request);
  }
  void do_all_gather(at::Tensor& part, at::Tensor& whole) override {
    MPI_Request request;
    check_mpi(MPI_Iallgather(part.const_data_ptr(), count_of(part), type_of(part), whole.mutable_data_ptr(),
                             count_of(part), type_of(part), MPI_COMM_WORLD, &request),
              "gather");
    wait(request);
  }
  void do_broadcast(at::Tensor& tensor, int root) override {
    in_pieces(tensor, [&](void* data, int count) {
      MPI_Request request;
      check_mpi(MPI_Ibcast(data, count, type_of(tensor), root, MPI_COMM_WORLD, &request), "broadcast");
      wait(request);
    });
  }

 private:
  static int count_of(const at::Tensor& part) {
    if (part.numel() > largest_piece) fail(ExitCode::internal, "a bucket of ", part.numel(), " elements");
    return static_cast<int>(part.numel());
  }
  template <class Operation>
  static void in_pieces(const at::Tensor& tensor, Operation&& operation) {
    auto* data = static_cast<char*>(tensor.mutable_data_ptr());
    for (std::int64_t from = 0; from < tensor.numel(); from += largest_piece) {
      operation(data + from * static_cast<std::int64_t>(tensor.element_size()),
                static_cast<int>(std::min(largest_piece, tensor.numel() - from)));
    }
  }
  // Spins shortly, then leaves the core to those who compute.
  void wait(MPI_Request& request) const {
    int done = 0;
    for (int round = 0; done == 0; ++round) {
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "go on");
      if (done != 0) return;
      if (round < 100) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(round < 2000 ? 50 : 500));
        if (round % 100 == 0) poll();
      }
    }
  }
};

}  // namespace

RankEnvironment mpi_start(const RankEnvironment& environment) {
  int given = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given) != MPI_SUCCESS) {
    fail(ExitCode::system, "MPI could not be initialised");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (given < MPI_THREAD_SERIALIZED) fail(ExitCode::system, "this MPI does not allow calls from a second thread");
  RankEnvironment e = environment;
  MPI_Comm_rank(MPI_COMM_WORLD, &e.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &e.size);
  if (e.size != environment.size) {
    fail(ExitCode::config, starter_name(environment.starter), " started ", environment.size,
         " processes, but MPI sees ", e.size,
         environment.starter == Starter::slurm ? " (srun --mpi=pmix may help)" : "");
  }
  return e;
}

std::string mpi_share(const std::string& text) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  check_mpi(MPI_Bcast(&length, 1, MPI_INT64_T, 0, MPI_COMM_WORLD), "broadcast");
  std::string shared = text;
  shared.resize(static_cast<std::size_t>(length));
  check_mpi(MPI_Bcast(shared.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD), "broadcast");
  return shared;
}

std::unique_ptr<Communicator> make_mpi(const RankEnvironment& environment, std::unique_ptr<RankWatch> watch) {
  return std::make_unique<MpiCommunicator>(environment, std::move(watch));
}

}  // namespace satformer

#else

namespace satformer {

RankEnvironment mpi_start(const RankEnvironment& environment) {
  fail(ExitCode::config, starter_name(environment.starter), " started ", environment.size,
       " processes, but this build of satformer has no MPI (libopenmpi-dev was missing when it was built); torchrun "
       "needs none");
}
std::string mpi_share(const std::string& text) { return text; }
std::unique_ptr<Communicator> make_mpi(const RankEnvironment&, std::unique_ptr<RankWatch>) {
  fail(ExitCode::internal, "built without MPI");
}

}  // namespace satformer

#endif
