// JSON lines and plain text as `prepare` reads them; the first byte chooses form, compression and rules.
#include "base/error.h"
#include "data/text_source.h"
#include "data/tokenize.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  if (size == 0) return 0;
  const unsigned choice = data[0];
  const fuzzing::MemoryFile file(fuzzing::text_of(data + 1, size - 1));
  static const auto tokenizer = make_byte_tokenizer();
  TextInput input;
  input.path = file.path();
  input.format = choice & 1 ? TextFormat::plain : TextFormat::json_lines;
  constexpr Compression compressions[] = {Compression::none, Compression::none, Compression::gzip, Compression::zstd};
  input.compression = compressions[(choice >> 1) & 3];
  DocumentRules rules;
  if (choice & 8) rules.separator = "--";
  if (choice & 16) rules.min_document_bytes = 8;
  rules.replace_invalid = (choice & 32) != 0;
  if (choice & 64) rules.sample.share = 0.5;
  TokenizeRules tokenizing;
  tokenizing.tokenizer = tokenizer.get();
  tokenizing.text_key = rules.text_key;
  tokenizing.skip_bad = (choice & 128) != 0;
  tokenizing.hash = true;
  try {
    BatchReader reader({input}, rules);
    TextBatch batch;
    std::size_t ids = 0, bytes = 0;
    while (reader.next(batch)) {
      const TokenBatch tokens = tokenize(batch, "input", tokenizing);
      for (const TokenBatch::Part& part : tokens.parts) {
        ids += part.ids;
        bytes += part.bytes;
      }
      if (tokens.error) std::rethrow_exception(tokens.error);
    }
    if (ids != bytes) __builtin_trap();  // of the byte tokenizer
  } catch (const Error&) {
  }
  return 0;
}
