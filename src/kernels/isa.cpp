#include "kernels/isa.h"

#include <cstdlib>

#include "base/error.h"

namespace satformer {
namespace {

struct Isa {
  std::string name;
  const rows::IsaTable* table;
};

const std::vector<Isa>& supported() {
  static const std::vector<Isa> list = [] {
    std::vector<Isa> found = {{"generic", &rows::generic_table()}};
#ifdef SATFORMER_ISA_X86
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      found.push_back({"avx2", &rows::avx2_table()});
    if (found.size() == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      found.push_back({"avx512", &rows::avx512_table()});
    }
#endif
    return found;
  }();
  return list;
}

const Isa& find(const std::string& name, const char* where) {
  for (const Isa& isa : supported()) {
    if (isa.name == name) return isa;
  }
  std::string choices;
  for (const Isa& isa : supported()) choices += (choices.empty() ? "" : ", ") + isa.name;
  const bool known = name == "avx2" || name == "avx512";
  fail(ExitCode::usage, where, " = '", name, "' ", known ? "is not supported by this CPU" : "is no instruction set",
       ". Choose one of: ", choices);
}

thread_local const Isa* forced = nullptr;

const Isa& active() {
  if (forced) return *forced;
  static const Isa& from_environment = []() -> const Isa& {
    const char* name = std::getenv("SATFORMER_CPU_ISA");
    return name && *name ? find(name, "SATFORMER_CPU_ISA") : supported().back();
  }();
  return from_environment;
}

}  // namespace

const std::vector<std::string>& cpu_isa_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Isa& isa : supported()) list.push_back(isa.name);
    return list;
  }();
  return names;
}

std::string active_cpu_isa() { return active().name; }
const rows::IsaTable& isa_table() { return *active().table; }

CpuIsaScope::CpuIsaScope(const std::string& name) : previous_(forced) { forced = &find(name, "instruction set"); }
CpuIsaScope::~CpuIsaScope() { forced = static_cast<const Isa*>(previous_); }

}  // namespace satformer
