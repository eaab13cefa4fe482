// The work of one tokenizer thread: a batch of text to token ids.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_source.h"
#include "io/tokenizer.h"

namespace satformer {

// The text of a JSON line or a Parquet value. Error(data) that begins with the file and the number of the line or row
// for what holds none: a bad line (below), null, a value that is not UTF-8 or too long.
std::string item_text(const TextBatch& batch, const TextItem& item, const std::string& path, const std::string& key);
// The text of one JSON line under `key`, without byte order mark, CRLF as LF. Anything else than an object with a
// string there is Error(data) whose message begins with `place` ("file:line").
std::string json_line_text(std::string_view line, const std::string& key, const std::string& place);

struct TokenBatch {
  struct Part {  // ids of one piece, in order
    std::size_t ids = 0;
    std::uint64_t bytes = 0;  // of text
    bool ends_document = false;
    std::string sha256;  // of the text, if asked for
  };
  std::vector<std::int32_t> ids;
  std::vector<Part> parts;
  std::int64_t empty_documents = 0, bad_lines = 0, sampled_out = 0, replaced_bytes = 0;
  std::exception_ptr error;  // what stopped the batch after these parts
  std::uint64_t disk_position = 0;
};

struct TokenizeRules {
  const Tokenizer* tokenizer = nullptr;
  std::string text_key;
  bool skip_bad = false;  // count bad lines; else the first is the batch's error
  bool hash = false;      // fill Part::sha256
};

// Batches of any kind but for errors: the first bad line or row of a batch ends it.
TokenBatch tokenize(const TextBatch& batch, const std::string& path, const TokenizeRules& rules);

}  // namespace satformer
