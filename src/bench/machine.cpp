#include "bench/machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "kernels/isa.h"
#include "kernels/tensor.h"
#include "train/estimate.h"

namespace satformer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Mean of several repetitions of at least `least` seconds in all.
double mean_seconds(double least, const std::function<void()>& work) {
  work();
  int count = 0;
  const auto start = Clock::now();
  while (seconds_since(start) < least) {
    work();
    ++count;
  }
  return seconds_since(start) / count;
}

constexpr std::int64_t fma_rounds = 1 << 24;  // some 50 ms: clocks settle

// Twelve independent chains of vector multiply-adds keep both units busy. Returns FLOPs; the sum keeps the work
// alive.
#if defined(__x86_64__)
typedef float Vector16 __attribute__((vector_size(64)));
typedef float Vector8 __attribute__((vector_size(32)));

template <class V>
[[gnu::always_inline]] inline double chains(float& sink) {
  constexpr int count = 12;
  V x[count], a = {}, b = {};
  const int width = static_cast<int>(sizeof(V) / sizeof(float));
  for (int i = 0; i < width; ++i) {
    a[i] = 0.999999f;
    b[i] = 1e-7f;
  }
  for (int c = 0; c < count; ++c) x[c] = b * static_cast<float>(c + 1);
  for (std::int64_t round = 0; round < fma_rounds; ++round) {
    for (int c = 0; c < count; ++c) x[c] = x[c] * a + b;
  }
  for (int c = 0; c < count; ++c) sink += x[c][0];
  return 2.0 * count * width * static_cast<double>(fma_rounds);
}
#ifdef __clang__
#define SATFORMER_FAST
#else
#define SATFORMER_FAST , gnu::optimize("O3,fast-math")
#endif
[[gnu::target("avx512f") SATFORMER_FAST]] double fma512(float& sink) { return chains<Vector16>(sink); }
[[gnu::target("avx2,fma") SATFORMER_FAST]] double fma256(float& sink) { return chains<Vector8>(sink); }
double run_fma(float& sink) {
  if (__builtin_cpu_supports("avx512f")) return fma512(sink);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma256(sink);
  return 0;
}
#else
double run_fma(float&) { return 0; }
#endif

double fma_flops(int threads) {
  double best = 0;
  for (int repetition = 0; repetition < 5; ++repetition) {
    std::vector<float> sinks(static_cast<std::size_t>(threads) * 32);
    std::vector<double> flops(static_cast<std::size_t>(threads) * 16);
    const auto start = Clock::now();
    {
      std::vector<std::jthread> workers;
      for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t) {
        workers.emplace_back([&, t] { flops[t * 16] = run_fma(sinks[t * 32]); });
      }
    }
    const double seconds = seconds_since(start);
    double total = 0;
    for (const double f : flops) total += f;
    best = std::max(best, total / seconds);
  }
  return best;
}

double gemm_flops(at::ScalarType dtype) { return product_flops(at::Device(at::kCPU), dtype, 2048, 0.4); }

// A sum over words that keeps eight loads on the way; `ahead`: bytes from here that are asked for already, into the
// second-level cache.
std::uint64_t sum_of_words(const std::uint64_t* words, std::size_t count, std::size_t ahead) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 8 <= count; i += 8) {
    if (ahead > 0) __builtin_prefetch(reinterpret_cast<const char*>(words + i) + ahead, 0, 2);
    for (std::size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t s : sums) sum += s;
  return sum;
}

std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown CPU";
}

double cpu_seconds(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// utime + stime of /proc/PID/stat, fields 14 and 15; the name in field 2 may hold anything up to the last ')'.
double process_seconds(int pid) {
  std::ifstream in(concat("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto end = text.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream fields(text.substr(end + 1));
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ReadingRate::ReadingRate(int threads) : threads_(threads), words_(std::size_t{1} << 25, 1) {}  // 256 MiB

double ReadingRate::measure() const {
  const double bytes = static_cast<double>(words_.size() * sizeof words_[0]);
  const auto threads = static_cast<std::size_t>(threads_);
  const std::size_t part = words_.size() / threads;
  double least = 1e9;
  for (const std::size_t ahead : {0, 4096, 16384}) {
    std::vector<std::uint64_t> sums(threads * 16);
    const double seconds = mean_seconds(0.15, [&] {
      std::vector<std::jthread> workers;
      for (std::size_t t = 0; t < threads; ++t) {
        workers.emplace_back([&, t] { sums[t * 16] = sum_of_words(words_.data() + t * part, part, ahead); });
      }
    });
    // What is compared with it is a mean over a second or more too.
    least = std::min(least, seconds);
  }
  return bytes / least;
}

MachineLimits measure_limits(int threads) {
  MachineLimits limits;
  limits.cpu = concat(cpu_name(), ", ", active_cpu_isa());
  limits.threads = threads;
  limits.gemm_flops = gemm_flops(at::kFloat);
  // Where others take part of the time of one measurement, the other one still shows what is possible.
  limits.fma_flops = std::max(fma_flops(threads), limits.gemm_flops);
  limits.gemm_bf16_flops = gemm_flops(at::kBFloat16);
  limits.read_bytes = ReadingRate(threads).measure();
  return limits;
}

CpuLoad::CpuLoad(std::vector<int> own) : own_(std::move(own)), start_(read()) {}

CpuLoad::Reading CpuLoad::read() const {
  Reading reading;
  reading.wall = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  std::ifstream in("/proc/stat");
  std::string label;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  in >> label >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  reading.busy = (user + nice + system + irq + soft + steal) / static_cast<double>(sysconf(_SC_CLK_TCK));
  rusage self{}, children{};
  getrusage(RUSAGE_SELF, &self);
  getrusage(RUSAGE_CHILDREN, &children);
  reading.own = cpu_seconds(self) + cpu_seconds(children);
  for (const int pid : own_) reading.own += process_seconds(pid);
  return reading;
}

double CpuLoad::foreign_share() const {
  const Reading now = read();
  const double wall = now.wall - start_.wall;
  const double cores = static_cast<double>(std::max(1u, std::thread::hardware_concurrency()));
  if (wall <= 0) return 0;
  return std::clamp((now.busy - start_.busy - (now.own - start_.own)) / (wall * cores), 0.0, 1.0);
}

}  // namespace satformer
