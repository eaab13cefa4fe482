// A torch.save archive: every tensor that it accepts is read.
#include "io/torch_archive.h"

#include <vector>

#include "base/error.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const fuzzing::MemoryFile input(fuzzing::text_of(data, size));
  try {
    const TorchArchive archive(input.path());
    std::vector<std::byte> buffer;
    for (const std::string& name : archive.names()) fuzzing::read_all(archive.read(name, buffer).data);
    archive.integer("step");
  } catch (const Error&) {
  }
  return 0;
}
