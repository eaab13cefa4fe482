// GGUF, version 3, little-endian: the files that llama.cpp reads. Writing, and reading back what was written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "io/file.h"

namespace satformer {

// The numbers are the format's.
enum class GgufType : std::uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };
inline constexpr std::int64_t q8_0_block = 32;  // elements that share a scale: fp16 scale, then as many int8
std::string gguf_type_name(GgufType type);

using GgufValue = std::variant<bool, std::uint32_t, float, std::string, std::vector<std::string>, std::vector<float>,
                               std::vector<std::int32_t>, std::vector<std::uint8_t>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;  // in the order of the file

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  // rows first, as elsewhere here; the file has them the other way round
  std::span<const std::byte> data = {};
  std::size_t bytes() const;  // by type and shape; rows of q8_0 are whole blocks
};

// Writes atomically. data(i): the bytes of tensor i, asked for in order, one at a time. Error(internal) if their
// number is not what type and shape say.
void write_gguf(const std::string& path, const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                const std::function<std::vector<std::byte>(std::size_t)>& data);

// Checked in full: sizes, offsets, names used twice. Error(checkpoint) naming file and reason, also for what this
// program does not write: other types of values and tensors.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path);  // maps the file; spans stay valid while this lives
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find(const std::string& name) const;  // nullptr if absent
  const GgufMetadata& metadata() const { return metadata_; }
  // nullptr if absent or of another type.
  template <class T>
  const T* get(const std::string& key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? nullptr : std::get_if<T>(&metadata_[found->second].second);
  }

 private:
  MappedFile file_;
  GgufMetadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, std::size_t> keys_, names_;
};

}  // namespace satformer
