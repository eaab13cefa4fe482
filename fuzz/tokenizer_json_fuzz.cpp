// A tokenizer.json: what loads must encode a text, with ids of its vocabulary, and go out as GGUF or be refused.
#include "base/error.h"
#include "io/tokenizer.h"
#include "io/tokenizer_gguf.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  try {
    const auto tokenizer = make_huggingface_tokenizer({std::string(fuzzing::text_of(data, size)), {}, "input"});
    for (const char* text : {"the cat  sat\non \xC3\xA9\t1234 \xF0\x9F\x98\x80 ab", " x", "", "<s>a</s>\xFF"}) {
      const std::vector<std::int32_t> ids = tokenizer->encode(text);
      for (const std::int32_t id : ids) {
        if (id < 0 || id >= tokenizer->vocab_size()) __builtin_trap();
        tokenizer->piece(id);
      }
      tokenizer->decode(ids);
      tokenizer->encode_continued(text);
    }
    gguf_tokenizer(*tokenizer, tokenizer->vocab_size());
  } catch (const Error&) {
  }
  return 0;
}
