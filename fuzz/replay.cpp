// Runs a fuzz target without libFuzzer: over each file of a corpus, then over mutations of them.
// Usage: NAME_fuzz CORPUS [MUTATIONS [SEED]]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
constexpr double most_seconds = 1.0;  // of an input, on an idle machine; ten times that fails

double run(const std::string& input) {
  const auto start = std::chrono::steady_clock::now();
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string mutated(std::string text, const std::vector<std::string>& corpus, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1)); };
  static constexpr unsigned char telling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '"', '{', '[', '9', '-'};
  for (std::size_t times = 1 + below(4); times > 0; --times) {
    const std::size_t at = below(text.size() + 1);
    switch (below(7)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(telling[below(std::size(telling))]);
        break;
      case 3:
        text.insert(at, 1 + below(8), static_cast<char>(random()));
        break;
      case 4:
        text.erase(at, 1 + below(16));
        break;
      case 5:
        text.insert(at, text.substr(below(text.size() + 1), below(64)));
        break;
      default: {
        const std::string& other = corpus[below(corpus.size())];
        text.replace(at, std::string::npos, other.substr(below(other.size() + 1)));
      }
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS [MUTATIONS [SEED]]\n", argv[0]);
    return 2;
  }
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> corpus;
  double slowest = 0;
  for (const fs::path& path : paths) {
    std::ifstream in(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    slowest = std::max(slowest, run(corpus.back()));
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no input\n", argv[1]);
    return 1;
  }
  const std::size_t mutations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  std::mt19937_64 random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  for (std::size_t i = 0; i < mutations; ++i) {
    slowest = std::max(slowest, run(mutated(corpus[i % corpus.size()], corpus, random)));
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%zu inputs and %zu mutations, slowest %.3f s, %ld MiB\n", corpus.size(), mutations, slowest,
              usage.ru_maxrss / 1024);
  return slowest > 10 * most_seconds || usage.ru_maxrss > 512 * 1024 ? 1 : 0;
}
