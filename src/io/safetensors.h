// The safetensors format, checked in full on reading: header length, JSON, duplicate keys, offsets without gap or
// overlap, sizes = product(shape) x dtype, file size. Violations are Error(checkpoint) naming file, tensor and
// reason.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"

namespace satformer {

struct TensorView {
  std::string name;
  std::string dtype;  // "F32", "BF16", "F16", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

std::size_t dtype_size(std::string_view dtype);  // 0 if unknown

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);  // maps the file; views stay valid while this lives
  const std::vector<TensorView>& tensors() const { return tensors_; }  // in file order
  const TensorView* find(std::string_view name) const;                 // nullptr if absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return file_.path(); }
  void check_not_cut() const;  // to be called after the views were copied: see io/mapping_faults.h

 private:
  MappedFile file_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// Writes atomically, tensors with the largest element first, then by name; `{"format":"pt"}` is added to the
// metadata. Returns the file's SHA-256.
std::string write_safetensors(const std::string& path, std::vector<TensorView> tensors,
                              std::map<std::string, std::string> metadata = {});

}  // namespace satformer
