#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "data/byte_reader.h"

namespace satformer {
namespace {

// One or several gzip members, which zero bytes may follow.
class GzipReader : public ByteReader {
 public:
  GzipReader(ByteReader& compressed, const std::string& path)
      : input_(compressed), path_(path), block_(block_bytes, '\0') {
    if (inflateInit2(&zlib_, 15 + 16) != Z_OK) fail(ExitCode::memory, path, ": out of memory for decompression");
  }
  ~GzipReader() override { inflateEnd(&zlib_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    zlib_.next_out = reinterpret_cast<Bytef*>(to);
    zlib_.avail_out = static_cast<uInt>(size);
    while (zlib_.avail_out > 0) {
      if (!more_input()) {
        if (in_member_) fail(ExitCode::data, path_, ": the gzip data is cut off");
        break;
      }
      if (!in_member_ && any_member_ && *zlib_.next_in == 0) {  // padding after the last member
        ++zlib_.next_in;
        --zlib_.avail_in;
        continue;
      }
      in_member_ = true;
      const int status = inflate(&zlib_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        in_member_ = false;
        any_member_ = true;
        inflateReset(&zlib_);
      } else if (status == Z_MEM_ERROR) {
        fail(ExitCode::memory, path_, ": out of memory for decompression");
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail(ExitCode::data, path_, ": the gzip data is corrupt: ", zlib_.msg ? zlib_.msg : "needs a dictionary");
      }
    }
    return size - zlib_.avail_out;
  }

 private:
  bool more_input() {
    if (zlib_.avail_in > 0) return true;
    zlib_.next_in = reinterpret_cast<Bytef*>(block_.data());
    zlib_.avail_in = static_cast<uInt>(input_.read(block_.data(), block_.size()));
    return zlib_.avail_in > 0;
  }

  ByteReader& input_;
  std::string path_, block_;
  z_stream zlib_{};
  bool in_member_ = true, any_member_ = false;
};

// One or several zstd frames. Memory is bounded by the library's default window of 128 MB.
class ZstdReader : public ByteReader {
 public:
  ZstdReader(ByteReader& compressed, const std::string& path)
      : input_(compressed), path_(path), block_(block_bytes, '\0'), stream_(ZSTD_createDStream()) {
    if (!stream_) fail(ExitCode::memory, path, ": out of memory for decompression");
  }
  ~ZstdReader() override { ZSTD_freeDStream(stream_); }
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    ZSTD_outBuffer out{to, size, 0};
    while (out.pos < out.size) {
      if (from_.pos == from_.size) {
        from_ = {block_.data(), input_.read(block_.data(), block_.size()), 0};
        if (from_.size == 0 && !flushing_) {
          if (in_frame_) fail(ExitCode::data, path_, ": the zstd data is cut off");
          break;
        }
      }
      const std::size_t before = out.pos;
      const std::size_t left = ZSTD_decompressStream(stream_, &out, &from_);
      if (ZSTD_isError(left)) {
        const bool window = ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge;
        fail(ExitCode::data, path_, ": the zstd data is ",
             window ? "made with a window of more than 128 MB; compress it again without --long or --ultra"
                    : concat("corrupt: ", ZSTD_getErrorName(left)));
      }
      in_frame_ = left != 0;
      // A full output may hide more in the library.
      flushing_ = in_frame_ && out.pos == out.size;
      if (from_.size == 0 && out.pos == before) {
        if (in_frame_) fail(ExitCode::data, path_, ": the zstd data is cut off");
        break;
      }
    }
    return out.pos;
  }

 private:
  ByteReader& input_;
  std::string path_, block_;
  ZSTD_DStream* stream_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool in_frame_ = true;  // an empty file is cut off
  bool flushing_ = false;
};

}  // namespace

Compression compression_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return Compression::gzip;
  if (head.starts_with("\x28\xb5\x2f\xfd")) return Compression::zstd;
  // A skippable frame before the first, as seekable and parallel compressors write it.
  if (head.size() >= 4 && (head[0] & 0xF0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18") return Compression::zstd;
  return Compression::none;
}

std::unique_ptr<ByteReader> make_decompressor(Compression compression, ByteReader& compressed,
                                              const std::string& path) {
  if (compression == Compression::gzip) return std::make_unique<GzipReader>(compressed, path);
  return std::make_unique<ZstdReader>(compressed, path);
}

}  // namespace satformer
