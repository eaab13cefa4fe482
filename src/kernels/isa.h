// The instruction set of the row kernels: the best that this CPU has, or SATFORMER_CPU_ISA=generic|avx2|avx512.
#pragma once

#include <string>
#include <vector>

#include "kernels/isa/row_table.h"

namespace satformer {

// Names this program and CPU can run, weakest first.
const std::vector<std::string>& cpu_isa_names();
// The name in use on this thread. Error(usage) for an unknown or unsupported name in the environment.
std::string active_cpu_isa();
const rows::IsaTable& isa_table();

// Forces an instruction set on this thread while it lives. Error(usage) as above.
class CpuIsaScope {
 public:
  explicit CpuIsaScope(const std::string& name);
  ~CpuIsaScope();
  CpuIsaScope(const CpuIsaScope&) = delete;
  CpuIsaScope& operator=(const CpuIsaScope&) = delete;

 private:
  const void* previous_;
};

}  // namespace satformer
