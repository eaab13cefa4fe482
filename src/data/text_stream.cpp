#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "data/text_source.h"
#include "io/tokenizer.h"

namespace satformer {
namespace {

// Bytes as they are on disk, or come from standard input.
class RawReader : public ByteReader {
 public:
  explicit RawReader(const TextInput& input) : path_(input.path), spool_(input.spool) {
    if (spool_) return;
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_errno("open", path_, errno);
  }
  ~RawReader() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  RawReader(const RawReader&) = delete;
  RawReader& operator=(const RawReader&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    std::size_t count = 0;
    if (spool_) {
      count = spool_->read(position_, to, size);
    } else {
      ssize_t result = 0;
      while ((result = ::read(descriptor_, to, size)) < 0 && errno == EINTR) {
      }
      if (result < 0) fail_errno("read", path_, errno);
      count = static_cast<std::size_t>(result);
    }
    position_ += count;
    return count;
  }
  std::uint64_t position() const { return position_; }

 private:
  std::string path_;
  std::shared_ptr<SpooledInput> spool_;
  int descriptor_ = -1;
  std::uint64_t position_ = 0;
};

// Finds what is not UTF-8 in a text that comes in blocks.
class Utf8Check {
 public:
  Utf8Check(std::string path, bool replace) : path_(std::move(path)), replace_(replace) {}

  // Leaves `block` valid; a character that its end cuts waits for the next. An empty block ends the text.
  void pass(std::string& block) {
    const bool last = block.empty();
    block.insert(0, std::exchange(cut_, {}));
    std::string repaired;
    std::size_t copied = 0, at = 0;
    while (at < block.size()) {
      std::uint64_t eight = 0;
      if (block.size() - at >= 8) std::memcpy(&eight, block.data() + at, 8);
      if (block.size() - at >= 8 && (eight & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
      const int length = utf8_length(std::string_view(block).substr(at));
      if (length > 0) {
        at += static_cast<std::size_t>(length);
        continue;
      }
      if (length == 0 && !last) break;
      if (!replace_) refuse(block, at);
      ++replaced_;
      repaired += block.substr(copied, at - copied) + "\xEF\xBF\xBD";
      copied = ++at;
    }
    cut_ = block.substr(at);
    offset_ += at;
    lines_ +=
        static_cast<std::uint64_t>(std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    block.resize(at);
    if (copied > 0) block = repaired + block.substr(copied);
  }
  std::int64_t replaced() const { return replaced_; }

 private:
  [[noreturn]] void refuse(const std::string& block, std::size_t at) const {
    const auto line =
        lines_ + 1 +
        static_cast<std::uint64_t>(std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    char byte[8];
    std::snprintf(byte, sizeof byte, "0x%02X", static_cast<unsigned char>(block[at]));
    fail(ExitCode::data, path_, ":", line, ": not UTF-8: ", byte, " at byte ", offset_ + at + 1,
         " of the text; convert the file, or replace such bytes with --skip-bad");
  }

  std::string path_;
  bool replace_;
  std::string cut_;
  std::uint64_t offset_ = 0, lines_ = 0;  // before `cut_`
  std::int64_t replaced_ = 0;
};

}  // namespace

struct TextStream::Source {
  Source(const TextInput& input, bool replace_invalid) : raw(input), utf8(input.path, replace_invalid) {
    check_utf8 = input.format == TextFormat::plain;
    if (input.compression != Compression::none) text = make_decompressor(input.compression, raw, input.path);
  }
  // Fills `out` with up to a block; empty at the end.
  void read(std::string& out) {
    ByteReader& reader = text ? *text : static_cast<ByteReader&>(raw);
    do {
      out.resize(block_bytes);
      out.resize(reader.read(out.data(), out.size()));
      if (!check_utf8) return;
      const bool end = out.empty();
      utf8.pass(out);
      if (end) return;
    } while (out.empty());
  }

  RawReader raw;
  std::unique_ptr<ByteReader> text;
  Utf8Check utf8;
  bool check_utf8 = false;
};

TextStream::TextStream(const TextInput& input, bool replace_invalid)
    : source_(std::make_unique<Source>(input, replace_invalid)) {}
TextStream::~TextStream() = default;

std::int64_t TextStream::replaced_bytes() const { return source_->utf8.replaced(); }
std::uint64_t TextStream::disk_position() const { return source_->raw.position(); }

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
