// A safetensors file: what is accepted is read in full.
#include "io/safetensors.h"

#include "base/error.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const fuzzing::MemoryFile input(fuzzing::text_of(data, size));
  try {
    const SafetensorsFile file(input.path());
    for (const TensorView& tensor : file.tensors()) {
      fuzzing::read_all(tensor.data);
      if (file.find(tensor.name) == nullptr) __builtin_trap();
    }
  } catch (const Error&) {
  }
  return 0;
}
