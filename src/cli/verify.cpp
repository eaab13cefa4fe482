#include <cstdio>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "eval/golden.h"
#include "nn/device.h"

namespace satformer::cli {

int run_verify(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  GoldenTolerance tolerance;
  std::string kernels = "both", device_name = "cpu";
  int threads = 0;
  Options options("verify",
                  "Compares the models with reference cases: logits, loss, gradients, optimizer trajectory, "
                  "and cached decoding against the full pass. Exit code 1 if any is out of tolerance.");
  options.add("cases", paths, "Folders of cases, or NAME.json files (NAME.safetensors beside them)", true)
      .add("--atol", tolerance.values, "Tolerance of logits, loss, gradients and cached decoding")
      .add("--atol-trajectory-loss", tolerance.trajectory_loss, "Tolerance of the trajectory's losses")
      .add("--atol-trajectory-norm", tolerance.trajectory_norm, "Tolerance of the trajectory's gradient norms")
      .add("--kernels", kernels,
           "Which implementations to check: fused, reference, both (the default), or gpu-on-host: the GPU's, run by "
           "the CPU")
      .add("--device", device_name, "cpu, cuda or cuda:N")
      .add("--threads", threads, "CPU threads (0: all)");
  if (!options.parse(arguments)) return 0;
  std::vector<std::pair<const char*, Backend>> backends;
  if (kernels == "both" || kernels == "reference") backends.emplace_back("reference", Backend::reference);
  if (kernels == "both" || kernels == "fused") backends.emplace_back("fused", Backend::automatic);
  if (kernels == "gpu-on-host") backends.emplace_back("gpu-on-host", Backend::gpu_on_host);
  if (backends.empty()) {
    fail(ExitCode::usage, "--kernels '", kernels, "' is not one of: fused, reference, both, gpu-on-host");
  }
  for (const double atol : {tolerance.values, tolerance.trajectory_loss, tolerance.trajectory_norm}) {
    if (!(atol >= 0)) fail(ExitCode::usage, "a tolerance of ", atol, " must be at least 0");
  }
  set_num_threads(threads);
  const at::Device device = parse_device(device_name);

  const std::vector<std::string> cases = find_golden_cases(paths);
  std::printf("max |difference| from the reference; tolerance %.0e (trajectory %.0e loss, %.0e norm)\n",
              tolerance.values, tolerance.trajectory_loss, tolerance.trajectory_norm);
  std::printf("%-32s %-11s %8s %8s %8s %8s %8s %8s\n", "case", "kernels", "logits", "loss", "grad", "decode",
              "traj.l", "traj.n");
  int failed = 0, total = 0, worst = static_cast<int>(ExitCode::check_failed);
  for (const std::string& path : cases) {
    for (const auto& [label, backend] : backends) {
      GoldenResult r;
      ++total;
      try {
        r = run_golden_case(path, backend, device);
      } catch (const Error& error) {  // the other cases still run
        ++failed;
        worst = static_cast<int>(error.code());
        std::printf("%s: %s\n", path.c_str(), error.what());
        break;
      }
      const bool ok = r.passes(tolerance);
      failed += ok ? 0 : 1;
      std::printf("%-32s %-11s %8.1e %8.1e %8.1e %8.1e ", r.name.c_str(), label, r.logits, r.loss, r.gradient,
                  r.decode);
      if (r.steps > 0)
        std::printf("%8.1e %8.1e", r.trajectory_loss, r.trajectory_norm);
      else
        std::printf("%8s %8s", "-", "-");
      std::printf("  %s", ok ? "ok" : "FAILED");
      if (!(r.gradient <= tolerance.values))
        std::printf(" (largest gradient difference: %s)", r.worst_gradient.c_str());
      if (!r.cache_bytes_equal) std::printf(" (cache is larger than a Transformer's)");
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  std::printf("%d of %d within tolerance\n", total - failed, total);
  return failed ? worst : 0;
}

}  // namespace satformer::cli
