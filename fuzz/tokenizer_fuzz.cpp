// A SentencePiece model: what loads must encode a text and give it back.
#include "base/error.h"
#include "io/tokenizer.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  try {
    const auto tokenizer = make_sentencepiece_tokenizer(std::string(fuzzing::text_of(data, size)), "input");
    const std::vector<std::int32_t> ids = tokenizer->encode("the cat  sat\non \xC3\xA9\t1234 \xF0\x9F\x98\x80");
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer->vocab_size()) __builtin_trap();
      tokenizer->piece(id);
    }
    tokenizer->decode(ids);
    tokenizer->encode_continued(" more");
  } catch (const Error&) {
  }
  return 0;
}
