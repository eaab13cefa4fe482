// The folder that shards are written to, held by one process at a time.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "io/shard_writer.h"
#include "io/tokenizer.h"

namespace satformer {

class OutputFolder {
 public:
  // Makes the folder and takes it. Errors: data (another process has it, shards are there and not to be overwritten),
  // system (not writable).
  OutputFolder(const std::string& path, bool overwrite);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  std::string file(std::string_view name) const;
  // Replaces what is there by finished shards, the tokenizer and the manifest.
  void publish(std::initializer_list<ShardWriter*> writers, const Tokenizer& tokenizer,
               const std::string& manifest) const;
  // The same with files of another kind: `write` gives them their names.
  void publish(const std::function<void()>& write, const std::string& manifest) const;

 private:
  void claim(bool overwrite) const;
  std::vector<std::string> shards(std::string_view ending) const;

  std::string path_;
  int descriptor_ = -1;
  bool created_ = false;  // by this prepare: removed again if nothing comes of it
};

}  // namespace satformer
