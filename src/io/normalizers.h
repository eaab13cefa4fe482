// Normalizers and pre-tokenizers of a tokenizer.json.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

// Changes a text before it is cut. Thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual std::string apply(std::string text) const = 0;
  // Leaves every text as it is when the text does not begin a document.
  virtual bool only_at_start() const { return false; }
};
// `json` may be null (nothing is changed). Error(data) naming `origin` and the type that is not supported.
std::vector<std::unique_ptr<Normalizer>> make_normalizers(const nlohmann::json& json, const std::string& origin);

// Cuts a text into words, changing them on the way. Thread-safe.
class PreTokenizer {
 public:
  using Words = std::vector<std::string>;
  virtual ~PreTokenizer() = default;
  // `at_start`: the first word begins a document.
  virtual void apply(Words& words, bool at_start) const = 0;
};

// What a pre-tokenizer says besides how it cuts.
struct PreTokenizers {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool byte_level = false;  // words are spelt in the byte alphabet
  // Where a single published pattern and the byte alphabet are all there is: words can be cut one by one.
  std::shared_ptr<const class WordPattern> only_pattern;
  bool prefix_space = false;  // ByteLevel's, with only_pattern
  bool marks_prefix = false;  // Metaspace puts a mark before a document
};
PreTokenizers make_pre_tokenizers(const nlohmann::json& json, const std::string& origin);

}  // namespace satformer
