#include "cli/export_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/hf/files.h"
#include "checkpoint/hf/import.h"
#include "checkpoint/tensor_io.h"
#include "cli/python_program.h"
#include "infer/generator.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

// What is computed on both sides: whole rows, rows of different lengths padded on the left, and their continuations.
struct Case {
  at::Tensor input_ids, logits, padded_ids, mask, padded_logits, generated;
};

class RandomIds {
 public:
  explicit RandomIds(std::int64_t count) : count_(static_cast<std::uint64_t>(count)) {}
  std::int64_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::int64_t>((state_ >> 33) % count_);
  }

 private:
  std::uint64_t count_, state_ = 20260503;
};

Case make_case(Model& model, const Tokenizer* tokenizer) {
  const ModelConfig& config = model.config();
  const std::int64_t context = config.max_position_embeddings, T = std::min<std::int64_t>(64, context);
  const std::int64_t used = tokenizer ? std::min(tokenizer->vocab_size(), config.vocab_size) : config.vocab_size;
  RandomIds draw(used);
  Case c;
  c.input_ids = at::zeros({2, T}, at::kLong);
  for (std::int64_t i = 0; i < 2 * T; ++i) c.input_ids.mutable_data_ptr<std::int64_t>()[i] = draw();
  c.logits = model.logits(c.input_ids, {});

  const std::int64_t new_tokens = std::clamp<std::int64_t>(context / 2, 1, 24);
  const std::int64_t longest = std::clamp<std::int64_t>(context - new_tokens, 1, 33);
  std::vector<std::vector<std::int64_t>> prompts;
  for (const std::int64_t length : {std::int64_t{1}, std::min<std::int64_t>(7, longest), longest}) {
    prompts.emplace_back();
    for (std::int64_t i = 0; i < length; ++i) prompts.back().push_back(draw());
  }
  c.padded_ids = at::zeros({3, longest}, at::kLong);
  c.mask = at::zeros({3, longest}, at::kLong);
  for (std::int64_t row = 0; row < 3; ++row) {
    const auto& prompt = prompts[static_cast<std::size_t>(row)];
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
  const auto rows = generate(model, prompts, options);
  c.generated = at::full({3, new_tokens}, -1, at::kLong);
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t i = 0; i < new_tokens; ++i) {
      c.generated[row][i] = rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(i)];
    }
  }
  return c;
}

void write_case(const Case& c, const std::string& path) {
  std::vector<at::Tensor> kept;
  std::vector<TensorView> views;
  for (const auto& [name, tensor] :
       {std::pair{"input_ids", c.input_ids}, std::pair{"logits", c.logits}, std::pair{"padded_ids", c.padded_ids},
        std::pair{"mask", c.mask}, std::pair{"padded_logits", c.padded_logits},
        std::pair{"generated", c.generated}}) {
    kept.push_back(tensor.detach().contiguous());
    views.push_back(view_of_tensor(name, kept.back()));
  }
  write_safetensors(path, views);
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

// A folder that is removed with its content.
struct ScratchFolder {
  ScratchFolder() {
    std::string pattern = (fs::temp_directory_path() / "satformer-export-XXXXXX").string();
    if (!mkdtemp(pattern.data())) fail_errno("create", pattern, errno);
    path = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string path;
};

void ask_transformers(const Case& c, const Tokenizer* tokenizer, const std::string& directory,
                      const std::string& python, bool must_ask, ExportCheck& check) {
  const ScratchFolder scratch;
  write_case(c, scratch.path + "/cases.safetensors");
  const bool has_texts = tokenizer && fs::exists(directory + "/tokenizer.json");
  write_file_atomic(scratch.path + "/texts.json", (has_texts ? texts_and_ids(*tokenizer) : Json::array()).dump());
  write_file_atomic(scratch.path + "/check_export.py", hf_file("check_export.py"));
  const PythonResult ran = run_python(python,
                                      {scratch.path + "/check_export.py", fs::absolute(directory).string(),
                                       scratch.path + "/cases.safetensors", scratch.path + "/texts.json"},
                                      {"HF_HUB_OFFLINE=1", "HF_MODULES_CACHE=" + scratch.path + "/modules",
                                       "CUDA_VISIBLE_DEVICES=", "PYTHONDONTWRITEBYTECODE=1"},
                                      scratch.path);
  if (!ran.found) {
    check.not_done = concat("there is no Python at '", python, "'");
  } else if (ran.code != 0) {
    const std::string why = last_line_of(ran.errors);
    if (must_ask || why.find("ModuleNotFound") == std::string::npos) {
      fail(ExitCode::check_failed, "transformers cannot load the export: ", why);
    }
    check.not_done = why;
  } else {
    const Json result = parse_json(last_line_of(ran.output), "the answer of " + python, ExitCode::internal);
    if (!result.contains("missing")) {
      ExportCheck::Transformers t;
      t.version = result["transformers"].get<std::string>();
      t.class_name = result["class"].get<std::string>();
      t.logits = result["logits"].is_number() ? result["logits"].get<double>() : NAN;
      t.padded = result["padded"].is_number() ? result["padded"].get<double>() : NAN;
      t.generate = result["generate"].get<double>();
      if (result.contains("texts")) t.texts = result["texts"].get<std::int64_t>();
      for (const char* key : {"loading", "tokenizer"}) {
        if (result.contains(key)) t.problem = concat(key, ": ", result[key].get<std::string>());
      }
      check.transformers = t;
      return;
    }
    check.not_done = concat(python, ": ", result["missing"].get<std::string>());
  }
  if (must_ask) fail(ExitCode::usage, "--python: ", check.not_done);
}

}  // namespace

bool ExportCheck::passes(double relative) const {
  const double tolerance = relative * size;
  if (!(reader <= tolerance)) return false;
  if (!transformers) return true;
  const Transformers& t = *transformers;
  return t.logits <= tolerance && t.padded <= tolerance && t.generate <= 2 * tolerance && t.problem.empty();
}

ExportCheck check_export(Model& model, const Tokenizer* tokenizer, const std::string& directory,
                         const std::string& python, bool must_ask) {
  const at::NoGradGuard no_grad;
  ExportCheck check;
  const Case c = make_case(model, tokenizer);
  check.size = std::max(1.0, largest(c.logits));
  const LoadedModel again = import_hf_model(directory, at::Device(at::kCPU));
  check.reader = largest(again.model->logits(c.input_ids, {}) - c.logits);
  ask_transformers(c, tokenizer, directory, python, must_ask, check);
  return check;
}

void print_check(const ExportCheck& check) {
  std::printf("read back     max |delta logit| %.2e\n", check.reader);
  if (check.transformers) {
    const auto& t = *check.transformers;
    std::printf("transformers  %s, %s: max |delta logit| %.2e, left-padded %.2e; greedy continuations %s",
                t.version.c_str(), t.class_name.c_str(), t.logits, t.padded, t.generate == 0 ? "equal" : "part");
    if (t.generate != 0) std::printf(" where two tokens are %.1e apart", t.generate);
    if (t.texts > 0)
      std::printf("; ids of %lld texts %s", static_cast<long long>(t.texts), t.problem.empty() ? "equal" : "differ");
    std::printf("\n");
  } else {
    std::printf("transformers  not asked: %s\n", check.not_done.c_str());
  }
}

LogitDifference compare_logits(Model& a, Model& b) {
  const at::NoGradGuard no_grad;
  const std::int64_t T = std::min<std::int64_t>(128, a.config().max_position_embeddings);
  const at::Tensor ids = at::zeros({2, T}, at::kLong);
  RandomIds draw(a.config().vocab_size);
  for (std::int64_t i = 0; i < 2 * T; ++i) ids.mutable_data_ptr<std::int64_t>()[i] = draw();
  const at::Tensor first = a.logits(ids, {});
  return {largest(b.logits(ids, {}) - first), largest(first)};
}

}  // namespace satformer::cli
