// Files of torch.save (its ZIP form, torch 1.6 and later), read without running the pickled program in them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/pickle.h"
#include "io/safetensors.h"
#include "io/zip_file.h"

namespace satformer {

bool is_torch_archive(const std::string& path);  // by its first bytes

class TorchArchive {
 public:
  // Checks everything but the values: archive, pickle, and of each tensor type, shape, strides and storage. Error
  // (checkpoint): a class or function outside of tensors and their containers (by name), sizes that do not fit,
  // tensors that repeat elements, big-endian files.
  explicit TorchArchive(const std::string& path);
  const std::string& path() const { return archive_.path(); }

  // Names of all tensors in the file's order: keys of nested dicts and numbers of lists joined by dots.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  // The view is of the file where the tensor is contiguous there, else of `buffer`, which takes its elements in
  // order.
  TensorView read(std::string_view name, std::vector<std::byte>& buffer) const;

  // An integer among the top-level keys.
  std::optional<std::int64_t> integer(std::string_view key) const;

 private:
  struct Tensor {
    std::string_view dtype;
    std::vector<std::int64_t> shape, strides;
    std::int64_t offset = 0;  // in elements
    std::uint64_t elements = 1;
    bool contiguous = true;
    std::span<const std::byte> storage;
  };

  void walk(const PickleValue& value, const std::string& name, int depth, std::set<const PickleValue*>& seen);
  Tensor tensor(const PickleValue& object, const std::string& name) const;
  void open_storage(const PickleValue& storage, const std::string& name, Tensor& tensor) const;

  ZipFile archive_;
  std::string prefix_;  // of the members: "archive/"
  std::unique_ptr<Pickle> pickle_;
  std::vector<std::string> names_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

}  // namespace satformer
