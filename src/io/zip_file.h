// ZIP archives whose members are stored without compression, as torch.save writes them; with the 64-bit extension.
// Every offset and size is checked against the file. Violations are Error(checkpoint) naming file, member and reason.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "io/file.h"

namespace satformer {

class ZipFile {
 public:
  explicit ZipFile(const std::string& path);  // maps the file; members stay valid while this lives
  const std::string& path() const { return file_.path(); }
  const std::map<std::string, std::span<const std::byte>, std::less<>>& members() const { return members_; }

 private:
  struct Directory {
    std::uint64_t entries, size, offset;
  };
  Directory find_directory() const;
  template <class T>
  T number(std::uint64_t offset) const;
  void read_member(std::uint64_t& at, std::uint64_t directory_offset, std::uint64_t directory_end);

  MappedFile file_;
  std::map<std::string, std::span<const std::byte>, std::less<>> members_;
};

}  // namespace satformer
