#include "cli/process_settings.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <string>
#include <string_view>

namespace satformer::cli {
namespace {

constexpr const char* mark = "SATFORMER_SETTINGS_OF";  // "PID" and the names of what was set, after the second start

bool user_sets_malloc() {
  if (std::getenv("GLIBC_TUNABLES")) return true;
  for (char** entry = environ; *entry; ++entry) {
    if (std::string_view(*entry).starts_with("MALLOC_")) return true;
  }
  return false;
}

}  // namespace

void start_with_settings(char** argv, bool trains) {
  const std::string own = std::to_string(getpid());
  if (const char* there = std::getenv(mark)) {
    const std::string rest = there;
    unsetenv(mark);
    if (rest.starts_with(own + " ")) {
      for (const char* name : {"GOMP_SPINCOUNT", "GLIBC_TUNABLES"}) {
        if (rest.find(name) != std::string::npos) unsetenv(name);
      }
      return;
    }
  }
  std::string set;
  const auto add = [&](const char* name, const char* value) {
    setenv(name, value, 1);
    set += std::string(" ") + name;
  };
  if (!std::getenv("GOMP_SPINCOUNT") && !std::getenv("OMP_WAIT_POLICY")) add("GOMP_SPINCOUNT", "4000");
  if (!user_sets_malloc()) {
    add("GLIBC_TUNABLES", trains ? "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
                                   "glibc.malloc.trim_threshold=1000000000000:glibc.malloc.top_pad=268435456"
                                 : "glibc.malloc.hugetlb=1");
  }
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (set.empty() || length <= 0) return;
  path[length] = '\0';
  setenv(mark, (own + set).c_str(), 1);
  execv(path, argv);  // returns only on failure, and then the defaults remain
  unsetenv(mark);
}

}  // namespace satformer::cli
