// SentencePiece models, loaded and used. A text is normalised as a whole, then cut between characters that stand side
// by side in no piece of the vocabulary. BPE joins nothing across such a border, so each part is encoded alone and
// remembered, which gives the ids of the whole text at a multiple of the speed.
#include <sentencepiece_processor.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "io/file.h"
#include "io/text_parts.h"
#include "io/tokenizer.h"

namespace satformer {
namespace {

namespace fs = std::filesystem;
using sentencepiece::SentencePieceProcessor;

// The integer at field numbers `outer` / `inner` of a serialised protocol buffer; the last one counts.
std::optional<std::uint64_t> proto_integer(std::string_view message, std::uint64_t outer, std::uint64_t inner) {
  std::optional<std::uint64_t> found;
  const auto varint = [&](std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  };
  std::uint64_t tag = 0, value = 0;
  while (varint(tag)) {
    const std::uint64_t wire = tag & 7;
    if (wire == 0) {
      if (!varint(value)) break;
      if (outer == 0 && tag >> 3 == inner) found = value;
    } else if (wire == 2) {
      if (!varint(value) || value > message.size()) break;
      if (tag >> 3 == outer && outer != 0) {
        if (const auto in = proto_integer(message.substr(0, value), 0, inner)) found = in;
      }
      message.remove_prefix(value);
    } else if (wire == 1 || wire == 5) {
      const std::size_t width = wire == 1 ? 8 : 4;
      if (message.size() < width) break;
      message.remove_prefix(width);
    } else {
      break;
    }
  }
  return found;
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, const std::string& origin) : model_(std::move(model)), origin_(origin) {
    sentencepiece::SetMinLogLevel(3);
    load(model_, origin, normalizer_);
    // Protocol buffers merge when appended: the same model without a normaliser (charsmap empty, no prefix space, no
    // whitespace collapse, no escape).
    load(model_ + std::string("\x1a\x08\x12\x00\x18\x00\x20\x00\x28\x00", 10), origin, segmenter_);
    const std::string x = normalize("x");
    if (x.size() > 1 && x.ends_with("x")) prefix_ = x.substr(0, x.size() - 1);
    if (normalizer_.unk_id() >= 0)
      normalizer_.Decode(std::vector<int>{normalizer_.unk_id()}, &unknown_).IgnoreError();
    const std::string collapsed = normalize("x  x");
    collapses_ = collapsed.find(std::string(space_mark) + std::string(space_mark)) == std::string::npos &&
                 collapsed.find("  ") == std::string::npos;
    find_borders();
    if (eos_id() < 0) fail(ExitCode::data, origin, ": this SentencePiece model has no end-of-sequence token");
  }

  std::vector<std::int32_t> encode(std::string_view text) const override { return segment(normalize(text)); }

  std::vector<std::int32_t> encode_continued(std::string_view text) const override {
    // A leading letter keeps what a normaliser would strip from the start of a text.
    const std::string normalized = normalize("x" + std::string(text));
    const std::string start = prefix_ + "x";
    return normalized.starts_with(start) ? segment(std::string_view(normalized).substr(start.size())) : encode(text);
  }

  std::string token_bytes(std::int32_t id, bool at_start) const override {
    check_id(id);
    if (normalizer_.IsControl(id) || normalizer_.IsUnused(id)) return {};
    if (normalizer_.IsUnknown(id)) return unknown_;
    const std::string& piece = normalizer_.IdToPiece(id);
    if (normalizer_.IsByte(id)) return std::string(1, static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16)));
    std::string_view rest = piece;
    if (at_start && (!prefix_.empty() || collapses_) && rest.starts_with(space_mark)) {
      rest.remove_prefix(collapses_ ? leading_marks(rest) : space_mark.size());
    }
    std::string text;
    for (std::size_t at = 0; at < rest.size();) {
      if (rest.substr(at).starts_with(space_mark)) {
        text += ' ';
        at += space_mark.size();
      } else {
        text += rest[at++];
      }
    }
    return text;
  }

  bool is_special(std::int32_t id) const override { return normalizer_.IsControl(id); }
  std::int64_t vocab_size() const override { return normalizer_.GetPieceSize(); }
  std::int32_t eos_id() const override { return normalizer_.eos_id(); }
  std::int32_t bos_id() const override { return normalizer_.bos_id(); }
  std::string piece(std::int32_t id) const override {
    check_id(id);
    return normalizer_.IdToPiece(id);
  }
  std::string name() const override { return "sentencepiece"; }
  std::string sha256() const override {
    Sha256 hash;
    hash.update(model_);
    return hash.hex();
  }
  void save(const std::string& directory) const override {
    write_file_atomic((fs::path(directory) / "tokenizer.model").string(), model_);
  }

 private:
  static void load(const std::string& model, const std::string& origin, SentencePieceProcessor& processor) {
    sentencepiece::util::Status status;
    try {
      status = processor.LoadFromSerializedProto(model);
    } catch (const std::exception& error) {  // of its trie: pieces that are empty, out of order or hold zero bytes
      const std::string_view what = error.what();
      const auto words = what.rfind(": ");
      fail(ExitCode::data, origin, ": not a usable SentencePiece model: its pieces make no dictionary (",
           words == std::string_view::npos ? what : what.substr(words + 2), ")");
    }
    if (!status.ok() || processor.GetPieceSize() < 1) {
      fail(ExitCode::data, origin, ": not a usable SentencePiece model: ",
           status.ok() ? "its vocabulary is empty" : sentencepiece_message(status.error_message()));
    }
  }

  std::string normalize(std::string_view text) const {
    std::string normalized;
    const auto status = normalizer_.Normalize(text, &normalized);
    if (!status.ok())
      fail(ExitCode::data, origin_, ": text cannot be normalised: ", sentencepiece_message(status.error_message()));
    return normalized;
  }

  // Parts are for BPE alone, whose merges are all local. Without byte fallback a run of unknown characters is one id,
  // which a border would split.
  void find_borders() {
    constexpr std::uint64_t trainer_spec = 2, model_type = 3, byte_fallback = 35, bpe = 2;
    by_parts_ = proto_integer(model_, trainer_spec, model_type) == bpe &&
                proto_integer(model_, trainer_spec, byte_fallback) == 1;
    for (int id = 0; id < normalizer_.GetPieceSize() && by_parts_; ++id) {
      if (normalizer_.IsControl(id) || normalizer_.IsUnknown(id) || normalizer_.IsByte(id)) continue;
      neighbours_.add(normalizer_.IdToPiece(id));
    }
  }

  static std::size_t leading_marks(std::string_view text) {
    std::size_t size = 0;
    while (text.substr(size).starts_with(space_mark)) size += space_mark.size();
    return size;
  }

  std::vector<std::int32_t> segment(std::string_view normalized) const {
    const auto encode_raw = [this](std::string_view text, std::vector<std::int32_t>& ids) {
      std::vector<int> part;
      const auto status = segmenter_.Encode(text, &part);
      if (!status.ok())
        fail(ExitCode::data, origin_, ": text cannot be encoded: ", sentencepiece_message(status.error_message()));
      ids.insert(ids.end(), part.begin(), part.end());
    };
    std::vector<std::int32_t> ids;
    if (!by_parts_) {
      encode_raw(normalized, ids);
      return ids;
    }
    std::unique_ptr<PartCache> cache = caches_.take();
    ids.reserve(normalized.size() / 3);
    while (!normalized.empty()) {
      const std::size_t length = neighbours_.part_length(normalized);
      cache->append(normalized.substr(0, length), ids, encode_raw);
      normalized.remove_prefix(length);
    }
    caches_.give_back(std::move(cache));
    return ids;
  }

  std::string model_, origin_;
  SentencePieceProcessor normalizer_, segmenter_;
  std::string prefix_;      // what the normaliser puts before a text
  bool collapses_ = false;  // the normaliser strips and joins spaces
  bool by_parts_ = false;
  Neighbours neighbours_;
  std::string unknown_;
  PartCaches caches_;
};

}  // namespace

// The library begins a message with "src/file.cc(12) [condition] ", and often that is all.
std::string sentencepiece_message(std::string_view message) {
  const std::size_t open = message.find(") [");
  const std::size_t source = message.rfind('(', open);
  if (open == std::string_view::npos || source == std::string_view::npos ||
      message.substr(0, source).find(' ') != std::string_view::npos) {
    return std::string(message);
  }
  std::size_t at = open + 2;
  int depth = 0;
  do {
    depth += message[at] == '[' ? 1 : message[at] == ']' ? -1 : 0;
  } while (++at < message.size() && depth > 0);
  const std::string_view condition = message.substr(open + 3, at - open - 4);
  std::string_view rest = message.substr(at);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return rest.empty() ? concat("SentencePiece asks for ", condition) : std::string(rest);
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(std::string model, const std::string& origin) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model), origin);
}

}  // namespace satformer
