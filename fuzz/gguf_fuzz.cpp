// A GGUF file: every tensor that it admits to must be readable.
#include "base/error.h"
#include "io/gguf.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const fuzzing::MemoryFile memory(fuzzing::text_of(data, size));
  try {
    const GgufFile file(memory.path());
    for (const GgufTensor& tensor : file.tensors()) {
      if (tensor.data.size() != tensor.bytes()) __builtin_trap();
      fuzzing::read_all(tensor.data);
      if (file.find(tensor.name) != &tensor) __builtin_trap();
    }
  } catch (const Error&) {
  }
  return 0;
}
