#include "cli/export_case.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "infer/generator.h"

namespace satformer::cli {

ExportCase make_export_case(Model& model, const Tokenizer* tokenizer) {
  const ModelConfig& config = model.config();
  const std::int64_t context = config.max_position_embeddings, T = std::min<std::int64_t>(64, context);
  const std::int64_t used = tokenizer ? std::min(tokenizer->vocab_size(), config.vocab_size) : config.vocab_size;
  RandomIds draw(used);
  ExportCase c;
  c.input_ids = at::zeros({2, T}, at::kLong);
  for (std::int64_t i = 0; i < 2 * T; ++i) c.input_ids.mutable_data_ptr<std::int64_t>()[i] = draw();
  c.logits = model.logits(c.input_ids, {});

  const std::int64_t new_tokens = std::clamp<std::int64_t>(context / 2, 1, 24);
  const std::int64_t longest = std::clamp<std::int64_t>(context - new_tokens, 1, 33);
  for (const std::int64_t length : {std::int64_t{1}, std::min<std::int64_t>(7, longest), longest}) {
    c.prompts.emplace_back();
    for (std::int64_t i = 0; i < length; ++i) c.prompts.back().push_back(draw());
  }
  c.padded_ids = at::zeros({3, longest}, at::kLong);
  c.mask = at::zeros({3, longest}, at::kLong);
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto& prompt = c.prompts[static_cast<std::size_t>(row)];
    const std::int64_t start = longest - std::ssize(prompt);
    for (std::int64_t i = 0; i < std::ssize(prompt); ++i) {
      c.padded_ids[row][start + i] = prompt[static_cast<std::size_t>(i)];
      c.mask[row][start + i] = 1;
    }
  }
  ForwardOptions padded;
  padded.attention_mask_BT = c.mask;
  c.padded_logits = model.logits(c.padded_ids, padded);
  GenerateOptions options;
  options.max_new_tokens = new_tokens;
  options.sampling.temperature = 0;
  const auto rows = generate(model, c.prompts, options);
  c.generated = at::full({3, new_tokens}, -1, at::kLong);
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t i = 0; i < new_tokens; ++i) {
      c.generated[row][i] = rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(i)];
    }
  }
  return c;
}

Json texts_and_ids(const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const char* text : {"The gate opens: 12,345.67 tokens!", " two  spaces\tand a tab\n\nnew lines\r\n",
                           "def f(x):\n    return x**2  # caf\xC3\xA9",
                           "\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xD0\x9F\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82 "
                           "\xF0\x9F\x98\x80\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD e\xCC\x81",
                           "don't we'll I'M 3rd", "", " ", "x", "\xC2\xA0\xE2\x80\x83z"}) {
    list.push_back({{"text", text}, {"ids", tokenizer.encode(text)}});
  }
  return list;
}

double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

ScratchFolder::ScratchFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "satformer-export-XXXXXX").string();
  if (!mkdtemp(pattern.data())) fail_errno("create", pattern, errno);
  path = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace satformer::cli
