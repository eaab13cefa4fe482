#include "cli/export_check.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/hf/files.h"
#include "checkpoint/hf/import.h"
#include "checkpoint/tensor_io.h"
#include "cli/export_case.h"
#include "cli/python_program.h"
#include "io/file.h"
#include "io/safetensors.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

void write_case(const ExportCase& c, const std::string& path) {
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

void ask_transformers(const ExportCase& c, const Tokenizer* tokenizer, const std::string& directory,
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
  const ExportCase c = make_export_case(model, tokenizer);
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
