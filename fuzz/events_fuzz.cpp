// A TensorBoard event file.
#include "memory_file.h"
#include "track/event_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const fuzzing::MemoryFile input(fuzzing::text_of(data, size));
  for (const ScalarEvent& event : read_events(input.path())) {
    if (event.values.empty()) __builtin_trap();
  }
  return 0;
}
