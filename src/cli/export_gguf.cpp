#include "cli/export_gguf.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/unicode.h"
#include "checkpoint/gguf/export.h"
#include "checkpoint/hf/files.h"
#include "cli/export_case.h"
#include "cli/model_target.h"
#include "cli/python_program.h"
#include "io/file.h"
#include "io/tokenizer_gguf.h"
#include "serve/template_files.h"

namespace satformer::cli {
namespace {

namespace fs = std::filesystem;

// What llama.cpp found; its products of matrices in types other than fp32 round the inputs too.
struct LlamaCppCheck {
  std::string version, problem;
  double logits = 0, generate = 0;
  std::int64_t texts = 0;
};
double allowed_rounding(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 5e-3;
    default:
      return 5e-2;
  }
}

GgufType gguf_type_of(const std::string& dtype, const std::string& model_directory) {
  const std::vector<std::string> known = {"stored", "float32", "bfloat16", "float16", "q8_0"};
  if (dtype == "stored") return stored_type(model_directory) == at::kBFloat16 ? GgufType::bf16 : GgufType::f32;
  if (dtype == "float32") return GgufType::f32;
  if (dtype == "bfloat16") return GgufType::bf16;
  if (dtype == "float16") return GgufType::f16;
  if (dtype == "q8_0") return GgufType::q8_0;
  fail(ExitCode::usage, "--dtype '", dtype, "' is not one of: stored, float32, bfloat16, float16, q8_0.",
       did_you_mean(dtype, known));
}

// A file that is removed unless it was given its name.
class UnprovedFile {
 public:
  explicit UnprovedFile(std::string path) : path_(std::move(path)) {}
  ~UnprovedFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  UnprovedFile(const UnprovedFile&) = delete;
  UnprovedFile& operator=(const UnprovedFile&) = delete;
  const std::string& path() const { return path_; }
  void name(const std::string& target) {
    std::error_code error;
    fs::rename(path_, target, error);
    if (error) fail_errno("rename", path_, error.value());
    sync_directory(fs::path(target).parent_path().string());
  }

 private:
  std::string path_;
};

// Of those that llama.cpp tokenizes alike.
Json comparable_texts(const Tokenizer* tokenizer, const GgufTokenizer& translated) {
  Json list = Json::array();
  if (!tokenizer) return list;
  for (const Json& sample : texts_and_ids(*tokenizer)) {
    const bool blank = strip(sample["text"].get_ref<const std::string&>()).empty();
    if (!blank || !translated.no_blanks) list.push_back(sample);
  }
  return list;
}

std::optional<LlamaCppCheck> ask_llama_cpp(Model& model, const Tokenizer* tokenizer, const GgufTokenizer& translated,
                                           const std::string& path, const std::string& python,
                                           std::string& not_done) {
  const ScratchFolder scratch;
  const ExportCase c = make_export_case(model, tokenizer);
  const auto rows_of = [](const at::Tensor& ids) {
    Json rows = Json::array();
    for (std::int64_t row = 0; row < ids.size(0); ++row) {
      Json list = Json::array();
      for (std::int64_t i = 0; i < ids.size(1); ++i) list.push_back(ids[row][i].item<std::int64_t>());
      rows.push_back(std::move(list));
    }
    return rows;
  };
  const Json cases = {{"rows", rows_of(c.input_ids)},      {"prompts", c.prompts},
                      {"generated", rows_of(c.generated)}, {"context", model.config().max_position_embeddings},
                      {"nfc", translated.nfc_alone},       {"texts", comparable_texts(tokenizer, translated)}};
  write_file_atomic(scratch.path + "/cases.json", cases.dump());
  const at::Tensor logits = c.logits.contiguous();
  write_file_atomic(scratch.path + "/logits.bin",
                    {static_cast<const char*>(logits.const_data_ptr()), logits.nbytes()});
  write_file_atomic(scratch.path + "/check_gguf.py", hf_file("check_gguf.py"));
  const PythonResult ran =
      run_python(python.empty() ? "python3" : python,
                 {scratch.path + "/check_gguf.py", path, scratch.path + "/cases.json", scratch.path + "/logits.bin"},
                 {"PYTHONDONTWRITEBYTECODE=1"}, scratch.path);
  if (!ran.found) {
    not_done = concat("there is no Python at '", python.empty() ? "python3" : python, "'");
    return std::nullopt;
  }
  if (ran.code != 0) fail(ExitCode::check_failed, "llama.cpp cannot load the export: ", last_line_of(ran.errors));
  const Json result = parse_json(last_line_of(ran.output), "the answer of check_gguf.py", ExitCode::internal);
  if (result.contains("missing")) {
    not_done = result["missing"].get<std::string>();
    return std::nullopt;
  }
  const auto number = [&](const char* key) { return result[key].is_number() ? result[key].get<double>() : NAN; };
  LlamaCppCheck check{result["llama_cpp"].get<std::string>(),
                      {},
                      number("logits"),
                      number("generate"),
                      result["texts"].get<std::int64_t>()};
  if (result.contains("tokenizer")) check.problem = result["tokenizer"].get<std::string>();
  return check;
}

// The file read back against the model, then against llama.cpp.
void prove(Model& model, const Tokenizer* tokenizer, const GgufExport& options, GgufType type,
           const GgufTokenizer& translated, const std::string& path) {
  const at::NoGradGuard no_grad;
  const bool exact = type == GgufType::f32 || (type == GgufType::bf16 && options.dtype == "stored");
  const std::unique_ptr<Model> again = read_gguf_model(path);
  const LogitDifference read_back = compare_logits(model, *again);
  const double size = std::max(1.0, read_back.size);
  std::printf("read back     max |delta logit| %.2e, largest |logit| %.1f%s\n", read_back.largest, read_back.size,
              exact ? "" : concat(": what rounding to ", gguf_type_name(type), " changes").c_str());
  if (exact ? !(read_back.largest <= options.tolerance * size) : !std::isfinite(read_back.largest)) {
    fail(ExitCode::check_failed, "the file read back differs from the model by more than ", options.tolerance,
         " of the largest logit, ", size, "; nothing was written");
  }
  std::string not_done;
  const auto asked = ask_llama_cpp(*again, tokenizer, translated, path, options.python, not_done);
  if (!asked) {
    if (!options.python.empty()) fail(ExitCode::usage, "--python: ", not_done);
    std::printf("llama.cpp     not asked: %s\n", not_done.c_str());
    return;
  }
  std::printf("llama.cpp     llama-cpp-python %s: max |delta logit| %.2e; greedy continuations %s",
              asked->version.c_str(), asked->logits, asked->generate == 0 ? "equal" : "part");
  if (asked->generate != 0) std::printf(" where two tokens are %.1e apart", asked->generate);
  if (asked->texts > 0) {
    std::printf("; ids of %lld texts %s", static_cast<long long>(asked->texts),
                asked->problem.empty() ? "equal" : "differ");
  }
  std::printf("\n");
  const double tolerance = std::max(options.tolerance, allowed_rounding(type)) * size;
  if (!asked->problem.empty()) {
    fail(ExitCode::check_failed, "llama.cpp tokenizes otherwise: ", asked->problem, "; nothing was written");
  }
  if (!(asked->logits <= tolerance && asked->generate <= 2 * tolerance)) {
    fail(ExitCode::check_failed, "llama.cpp differs from the model by more than ", tolerance / size,
         " of the largest logit, ", size, "; nothing was written");
  }
}

void add_chat_template(const std::string& folder, GgufMetadata& metadata) {
  for (const auto& source : serve::read_template_files(folder).sources) {
    if (source.name == "default") metadata.emplace_back("tokenizer.chat_template", source.text);
  }
}

}  // namespace

void export_gguf(const GgufExport& options) {
  fs::path target = fs::absolute(options.target).lexically_normal();
  if (target.extension() != ".gguf") target /= "model.gguf";
  std::error_code ignored;
  if (fs::is_directory(target, ignored)) fail(ExitCode::usage, target.string(), " is a folder, not a file");
  if (fs::exists(target, ignored) && !options.overwrite) {
    fail(ExitCode::usage, target.string(), " exists; --overwrite replaces it");
  }
  if (options.dtype != "stored") gguf_type_of(options.dtype, {});
  const LoadedModel loaded = options.model.load();
  Model& model = *loaded.model;
  const std::string architecture = gguf_architecture(model.config());
  const GgufType type = gguf_type_of(options.dtype, loaded.directory);
  std::unique_ptr<Tokenizer> tokenizer;
  if (options.tokenizer) tokenizer = tokenizer_beside(loaded, options.model.tokenizer);

  fs::path named = fs::absolute(options.model.model).lexically_normal();
  if (named.filename().empty()) named = named.parent_path();
  GgufMetadata metadata = gguf_metadata(model, named.filename().string(), type);
  GgufTokenizer translated;
  if (tokenizer) {
    translated = gguf_tokenizer(*tokenizer, model.config().vocab_size);
    std::move(translated.metadata.begin(), translated.metadata.end(), std::back_inserter(metadata));
    add_chat_template(serve::template_folder(options.model.tokenizer, loaded.directory), metadata);
  } else {
    metadata.emplace_back("tokenizer.ggml.model", std::string("none"));
  }
  make_directories(target.parent_path().string());
  UnprovedFile file(target.string() + ".unproved");
  write_gguf_model(model, metadata, type, file.path());
  if (options.check) prove(model, tokenizer.get(), options, type, translated, file.path());
  file.name(target.string());
  std::printf("exported      %s as %s, %s, to %s\n", loaded.directory.c_str(), architecture.c_str(),
              gguf_type_name(type).c_str(), target.string().c_str());
  for (const std::string& note : translated.notes) std::printf("tokenizer     %s\n", note.c_str());
  if (!tokenizer) {
    std::printf("tokenizer     none%s\n",
                options.tokenizer ? ": there is none beside the model; --tokenizer names one" : "");
  }
}

}  // namespace satformer::cli
