// Bytes of a file or of standard input, decompressed where they are gzip or zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace satformer {

inline constexpr std::size_t block_bytes = std::size_t{256} << 10;  // read from a file or pipe at a time

// An input that can be read only once, such as a pipe, kept so that it can be read again: the first megabyte in
// memory, more in a file without a name. One reader at a time; forget() may be called meanwhile.
class SpooledInput {
 public:
  SpooledInput(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
  ~SpooledInput();
  SpooledInput(const SpooledInput&) = delete;
  SpooledInput& operator=(const SpooledInput&) = delete;

  // Where the file is made; to be set before the second megabyte is read.
  void set_directory(const std::string& directory) { directory_ = directory; }
  // Up to `size` bytes at `offset`, which is at most what was read so far; 0 at the end. Error(system).
  std::size_t read(std::uint64_t offset, char* to, std::size_t size);
  // From now on nobody begins anew: what comes is not kept any more.
  void forget();

 private:
  void keep(const char* bytes, std::size_t size);

  int descriptor_;
  std::string name_, directory_;
  std::mutex mutex_;
  std::string memory_;
  int file_ = -1;  // holds all, once there is one
  std::uint64_t kept_ = 0, total_ = 0;
  bool forgotten_ = false;
};

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  // Up to `size` bytes; 0 at the end. `to` has room for one byte at least.
  virtual std::size_t read(char* to, std::size_t size) = 0;
};

enum class Compression { none, gzip, zstd };

// The compression that the first bytes of a file show.
Compression compression_of(std::string_view head);

// `compressed` outlives the reader. Error(data) naming `path` where data is cut off or corrupt.
std::unique_ptr<ByteReader> make_decompressor(Compression compression, ByteReader& compressed,
                                              const std::string& path);

}  // namespace satformer
