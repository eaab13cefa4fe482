#include "base/process_memory.h"

#include <fstream>
#include <string>

namespace satformer {
namespace {

double status_bytes(const char* name) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(name)) return std::stod(line.substr(line.find(':') + 1)) * 1024;
  }
  return 0;
}

}  // namespace

double resident_bytes() { return status_bytes("VmRSS:"); }
double peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace satformer
