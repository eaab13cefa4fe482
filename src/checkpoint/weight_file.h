// Named tensors of a model's weights in any of their forms: one safetensors file, one torch.save archive, or several
// of either kind named by an index.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/torch_archive.h"

namespace satformer {

class WeightFile {
 public:
  // `path`: model.safetensors, pytorch_model.bin, or an index (NAME.index.json) beside the files that it names.
  // Error(checkpoint) for what is damaged, for a tensor that the index names and no file holds, and for one that the
  // files hold and the index does not name.
  explicit WeightFile(const std::string& path);
  const std::vector<std::string>& names() const { return names_; }
  bool contains(const std::string& name) const { return where_.count(name) > 0; }
  TensorView read(const std::string& name);  // valid until the next call
  // To be called after all tensors were copied: Error(system) if a file became shorter meanwhile.
  void check_not_cut() const;

 private:
  struct Part {
    std::unique_ptr<TorchArchive> archive;
    std::unique_ptr<SafetensorsFile> safetensors;
  };
  void add(const std::string& path);

  std::vector<Part> parts_;
  std::map<std::string, std::size_t> where_;  // of each tensor, its part
  std::vector<std::string> names_;
  std::vector<std::byte> buffer_;
};

// Path of the weights in a model's folder: model.safetensors, its index, pytorch_model.bin, its index; the first that
// exists, or an empty string.
std::string find_weights(const std::string& directory);

// Writes `tensors` into `directory` as model.safetensors, or, where their bytes pass `max_shard_bytes`, as
// model-00001-of-0000N.safetensors with model.safetensors.index.json. The names of the files that were written.
std::vector<std::string> write_weights(const std::string& directory, const std::vector<TensorView>& tensors,
                                       std::int64_t max_shard_bytes);

}  // namespace satformer
