// A folder of one shard with its manifest: a manifest, a zero byte, the shard's bytes, perhaps a zero byte and marks.
#include "io/shards.h"

#include <unistd.h>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory_file.h"

namespace {

void put(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

// One folder a process, in memory where there is such a file system.
const std::string& folder() {
  static const std::string& path = *new std::string([] {  // lives until the end
    std::string name =
        ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/satformer_fuzz_XXXXXX" : "/tmp/satformer_fuzz_XXXXXX";
    if (!::mkdtemp(name.data())) std::abort();
    std::atexit([] {
      for (const char* file : {"/manifest.json", "/train_00000.bin", "/train_00000.marks"}) {
        ::unlink((folder() + file).c_str());
      }
      ::rmdir(folder().c_str());
    });
    return name;
  }());
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  std::string_view rest = fuzzing::text_of(data, size);
  const auto part = [&](char end) {
    const auto at = rest.find(end);
    const std::string_view first = rest.substr(0, at);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + 1);
    return first;
  };
  const std::string_view manifest = part('\0');
  const auto marks_at = rest.find("MARK");
  put(folder() + "/manifest.json", manifest);
  put(folder() + "/train_00000.bin", rest.substr(0, marks_at));
  const std::string marks = folder() + "/train_00000.marks";
  if (marks_at == std::string_view::npos) {
    ::unlink(marks.c_str());
  } else {
    put(marks, rest.substr(marks_at + 4));
  }
  try {
    const TokenShards shards(folder(), "train");
    static constexpr std::string_view kinds[] = {"noise", "key", "value"};
    std::vector<std::int64_t> ids(static_cast<std::size_t>(shards.total_tokens()));
    shards.read(0, 0, ids);
    std::vector<std::byte> read_marks(ids.size());
    if (shards.has_marks()) shards.read_marks(0, 0, read_marks);
    shards.check_marks(kinds);
    shards.check_ids(1000);
    shards.verify_contents();
  } catch (const Error&) {
  }
  return 0;
}
