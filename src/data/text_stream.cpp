#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "data/text_source.h"

namespace satformer {
namespace {
constexpr std::size_t block_bytes = std::size_t{256} << 10;
}

// Raw bytes of the file, decompressed where it is gzip (of one or several members).
struct TextStream::Source {
  explicit Source(const TextInput& input)
      : path(input.path), gzip(input.gzip), compressed(gzip ? block_bytes : 0, '\0') {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail_errno("open", path, errno);
    if (!gzip) return;
    if (inflateInit2(&zlib, 15 + 16) != Z_OK) {
      ::close(descriptor);
      fail(ExitCode::memory, path, ": out of memory for decompression");
    }
  }
  ~Source() {
    if (gzip) inflateEnd(&zlib);
    ::close(descriptor);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  std::size_t read_disk(char* to, std::size_t size) {
    for (;;) {
      const ssize_t count = ::read(descriptor, to, size);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_errno("read", path, errno);
      position += static_cast<std::uint64_t>(count);
      return static_cast<std::size_t>(count);
    }
  }

  // Fills `out` with up to a block; empty at the end.
  void read(std::string& out) {
    out.resize(block_bytes);
    out.resize(gzip ? inflate_block(out.data(), out.size()) : read_disk(out.data(), out.size()));
  }

  bool more_input() {
    if (zlib.avail_in > 0) return true;
    zlib.next_in = reinterpret_cast<Bytef*>(compressed.data());
    zlib.avail_in = static_cast<uInt>(read_disk(compressed.data(), compressed.size()));
    return zlib.avail_in > 0;
  }

  std::size_t inflate_block(char* to, std::size_t size) {
    zlib.next_out = reinterpret_cast<Bytef*>(to);
    zlib.avail_out = static_cast<uInt>(size);
    while (zlib.avail_out > 0) {
      if (!more_input()) {
        if (in_member) fail(ExitCode::data, path, ": the gzip data is cut off");
        break;
      }
      if (!in_member && any_member && *zlib.next_in == 0) {  // padding after the last member
        ++zlib.next_in;
        --zlib.avail_in;
        continue;
      }
      in_member = true;
      const int status = inflate(&zlib, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        in_member = false;
        any_member = true;
        inflateReset(&zlib);
      } else if (status == Z_MEM_ERROR) {
        fail(ExitCode::memory, path, ": out of memory for decompression");
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail(ExitCode::data, path, ": the gzip data is corrupt: ", zlib.msg ? zlib.msg : "needs a dictionary");
      }
    }
    return size - zlib.avail_out;
  }

  std::string path;
  bool gzip;
  int descriptor = -1;
  std::uint64_t position = 0;
  std::string compressed;
  z_stream zlib{};
  bool in_member = true, any_member = false;
};

TextStream::TextStream(const TextInput& input) : source_(std::make_unique<Source>(input)) {}
TextStream::~TextStream() = default;

std::uint64_t TextStream::disk_position() const { return source_->position; }

bool TextStream::read(std::string& out) {
  source_->read(block_);
  // A mark cut by a short first read is completed before it is judged.
  while (at_start_ && !block_.empty() && block_.size() < 3) {
    std::string more;
    source_->read(more);
    if (more.empty()) break;
    block_ += more;
  }
  if (block_.empty()) {
    if (!std::exchange(carriage_return_, false)) return false;
    out += '\r';
    return true;
  }
  std::string_view text = block_;
  if (std::exchange(at_start_, false) && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (std::exchange(carriage_return_, false) && !text.starts_with('\n')) out += '\r';
  for (;;) {
    const auto at = text.find('\r');
    if (at == std::string_view::npos) break;
    out += text.substr(0, at);
    text.remove_prefix(at + 1);
    if (text.empty()) {
      carriage_return_ = true;
    } else if (text.front() != '\n') {
      out += '\r';
    }
  }
  out += text;
  return true;
}

}  // namespace satformer
