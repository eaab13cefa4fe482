#include "cli/spin.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>

namespace satformer::cli {

void limit_spinning(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = '\0';
  setenv("GOMP_SPINCOUNT", "1000", 1);
  execv(path, argv);  // returns only on failure, and then the default spin remains
}

}  // namespace satformer::cli
