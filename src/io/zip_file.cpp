#include "io/zip_file.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace satformer {
namespace {

constexpr std::uint32_t local_signature = 0x04034B50, member_signature = 0x02014B50, end_signature = 0x06054B50;
constexpr std::uint32_t end64_signature = 0x06064B50, locator64_signature = 0x07064B50;
constexpr std::uint64_t local_bytes = 30, member_bytes = 46, end_bytes = 22, end64_bytes = 56, locator64_bytes = 20;
constexpr std::uint32_t in_extension = 0xFFFFFFFF;  // the number is in the 64-bit extension

std::string shown_name(std::string_view name) { return concat("'", name.substr(0, 200), "'"); }

}  // namespace

template <class T>
T ZipFile::number(std::uint64_t offset) const {
  const auto bytes = file_.bytes();
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) {
    fail(ExitCode::checkpoint, path(), ": the archive is cut: byte ", offset, " of ", bytes.size(), " is needed");
  }
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

ZipFile::Directory ZipFile::find_directory() const {
  const std::uint64_t size = file_.bytes().size();
  if (size < 4 || number<std::uint32_t>(0) != local_signature) {
    fail(ExitCode::checkpoint, path(),
         ": not a ZIP archive as torch.save writes since torch 1.6: damaged, cut off or of an older torch");
  }
  // The end record is followed by a comment of at most 65,535 bytes.
  for (std::uint64_t comment = 0; comment <= 0xFFFF && size >= end_bytes + comment; ++comment) {
    const std::uint64_t at = size - end_bytes - comment;
    if (number<std::uint32_t>(at) != end_signature || number<std::uint16_t>(at + 20) != comment) continue;
    Directory directory{number<std::uint16_t>(at + 10), number<std::uint32_t>(at + 12),
                        number<std::uint32_t>(at + 16)};
    if (at >= locator64_bytes && number<std::uint32_t>(at - locator64_bytes) == locator64_signature) {
      const auto end64 = number<std::uint64_t>(at - locator64_bytes + 8);
      if (end64 > at || at - end64 < end64_bytes || number<std::uint32_t>(end64) != end64_signature) {
        fail(ExitCode::checkpoint, path(), ": the 64-bit end record is not where the archive says, at ", end64);
      }
      directory = {number<std::uint64_t>(end64 + 32), number<std::uint64_t>(end64 + 40),
                   number<std::uint64_t>(end64 + 48)};
    }
    if (directory.offset > at || directory.size > at - directory.offset ||
        directory.entries > directory.size / member_bytes) {
      fail(ExitCode::checkpoint, path(), ": the directory of ", directory.entries, " members in ", directory.size,
           " bytes at ", directory.offset, " does not fit the archive of ", size, " bytes");
    }
    return directory;
  }
  fail(ExitCode::checkpoint, path(), ": the archive is cut: it has no directory at its end");
}

ZipFile::ZipFile(const std::string& path) : file_(path) {
  const Directory directory = find_directory();
  std::uint64_t at = directory.offset;
  const std::uint64_t end = directory.offset + directory.size;
  for (std::uint64_t i = 0; i < directory.entries; ++i) read_member(at, directory.offset, end);
}

void ZipFile::read_member(std::uint64_t& at, std::uint64_t directory_offset, std::uint64_t directory_end) {
  const auto bytes = file_.bytes();
  const auto within = [&](std::uint64_t size) {
    if (size > directory_end - at) fail(ExitCode::checkpoint, path(), ": the directory is cut at byte ", at);
  };
  within(member_bytes);
  if (number<std::uint32_t>(at) != member_signature) {
    fail(ExitCode::checkpoint, path(), ": the directory has no member at byte ", at);
  }
  const auto method = number<std::uint16_t>(at + 10), flags = number<std::uint16_t>(at + 8);
  std::uint64_t packed = number<std::uint32_t>(at + 20), size = number<std::uint32_t>(at + 24);
  std::uint64_t offset = number<std::uint32_t>(at + 42);
  const std::uint64_t name_bytes = number<std::uint16_t>(at + 28), extra_bytes = number<std::uint16_t>(at + 30);
  const std::uint64_t comment_bytes = number<std::uint16_t>(at + 32);
  within(member_bytes + name_bytes + extra_bytes + comment_bytes);
  const std::string name(reinterpret_cast<const char*>(bytes.data()) + at + member_bytes, name_bytes);
  const auto reject = [&](const auto&... what) {
    fail(ExitCode::checkpoint, path(), ": member ", shown_name(name), " ", what...);
  };
  // The extension holds those numbers of the record that do not fit it, in this order.
  std::uint64_t field = at + member_bytes + name_bytes;
  const std::uint64_t fields_end = field + extra_bytes;
  while (fields_end - field >= 4) {
    const auto id = number<std::uint16_t>(field);
    const std::uint64_t field_bytes = number<std::uint16_t>(field + 2);
    field += 4;
    if (field_bytes > fields_end - field) break;
    std::uint64_t value_at = field;
    for (std::uint64_t* value : {&size, &packed, &offset}) {
      if (id != 1 || *value != in_extension) continue;
      if (field + field_bytes - value_at < 8) reject("lacks a 64-bit size");
      *value = number<std::uint64_t>(value_at);
      value_at += 8;
    }
    field += field_bytes;
  }
  at += member_bytes + name_bytes + extra_bytes + comment_bytes;

  if (flags & 1) reject("is encrypted");
  if (method != 0 || packed != size) reject("is compressed, which torch.save never does");
  if (offset > directory_offset || directory_offset - offset < local_bytes ||
      number<std::uint32_t>(offset) != local_signature) {
    reject("is not at its place, byte ", offset);
  }
  const std::uint64_t data =
      offset + local_bytes + number<std::uint16_t>(offset + 26) + number<std::uint16_t>(offset + 28);
  if (data > directory_offset || size > directory_offset - data) {
    reject("of ", size, " bytes at ", data, " does not fit the archive of ", bytes.size(), " bytes");
  }
  if (!members_.emplace(name, bytes.subspan(data, size)).second) reject("is there twice");
}

}  // namespace satformer
