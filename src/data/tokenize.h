// The work of one tokenizer thread: a batch of text to token ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_source.h"
#include "io/tokenizer.h"

namespace satformer {

// The text of one JSON line under `key`, without byte order mark, CRLF as LF. Anything else than an object with a
// string there is Error(data) whose message begins with `place` ("file:line").
std::string json_line_text(std::string_view line, const std::string& key, const std::string& place);

struct TokenBatch {
  struct Part {  // ids of one item, in order
    std::size_t ids = 0;
    std::uint64_t bytes = 0;  // of text
    bool ends_document = false;
  };
  std::vector<std::int32_t> ids;
  std::vector<Part> parts;
  std::int64_t empty_documents = 0, bad_lines = 0;
  std::uint64_t disk_position = 0;
};

struct TokenizeRules {
  const Tokenizer* tokenizer = nullptr;
  std::string text_key;
  bool skip_bad = false;  // count bad lines; else they are Error(data)
};

TokenBatch tokenize(const TextBatch& batch, const std::string& path, const TokenizeRules& rules);

}  // namespace satformer
