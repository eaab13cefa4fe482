// A pickle as torch.save writes it, without the archive around it.
#include "io/pickle.h"

#include <vector>

#include "base/error.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const std::string origin = "input";
  try {
    const Pickle pickle({reinterpret_cast<const std::byte*>(data), size}, origin);
    pickle.root().find("step");
  } catch (const Error&) {
  }
  return 0;
}
