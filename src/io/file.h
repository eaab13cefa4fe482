// Files: reading, memory mapping, and writing that leaves either the old or the new file, never a part.
// Every failure is Error(system) naming the file, the action and errno's text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // libcrypto's

namespace satformer {

std::string read_file(const std::string& path);

// Read-only mapping of a whole file; an empty file gives an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string path_;
};

// A file written under "<path>.tmp" and renamed to `path` by commit(), after fsync of the file; then the folder is
// synced. Without commit() the temporary file is removed.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Bytes in memory aligned to pages, a whole number of disk blocks, behind others of that kind alone: past the page
  // cache if the file system can.
  void write_block(std::span<const std::byte> bytes);
  // Syncs and closes the temporary file, which frees its descriptor; commit() then only renames.
  void close_synced();
  void commit();
  std::uint64_t size() const { return written_; }

 private:
  std::string path_, temporary_;
  int descriptor_ = -1;
  bool in_place_ = false;  // no rename
  bool direct_ = false;    // O_DIRECT is set
  void set_direct(bool direct);
  std::uint64_t written_ = 0;
};

void write_file_atomic(const std::string& path, std::string_view text);
void make_directories(const std::string& path);  // like mkdir -p; the new names are synced
void sync_directory(const std::string& path);
void sync_file(const std::string& path);
// Appends to a log; each call is one write(2) of whole lines.
class AppendFile {
 public:
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  void append(std::string_view text);

 private:
  std::string path_;
  int descriptor_ = -1;
};

// SHA-256 by libcrypto, lower-case hexadecimal.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  std::string hex();  // finishes; call once

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};
std::string sha256_file(const std::string& path);

}  // namespace satformer
