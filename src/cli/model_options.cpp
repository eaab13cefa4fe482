#include "cli/model_options.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "distributed/ranks.h"
#include "nn/device.h"

namespace satformer::cli {

namespace fs = std::filesystem;

void ModelOptions::add_to(Options& options, bool with_tokenizer) {
  options.add("--model,-m", model, "Model folder, checkpoint or run folder (its final or newest model)", true);
  if (with_tokenizer) {
    options.add("--tokenizer", tokenizer, "\"byte\", a SentencePiece model or a folder (default: beside the model)");
  }
  options.add("--device", device, "cpu, cuda or cuda:N")
      .add("--dtype", dtype, "Type to compute in: float32 or bfloat16")
      .add("--weights", weights, "int8 or int4: matrices in 8 or 4 bits, on a CPU; full: as --dtype")
      .add("--threads", threads, "CPU threads (0: all)");
}

bool has_tokenizer(const std::string& directory) {
  return fs::exists(fs::path(directory) / "tokenizer.model") || fs::exists(fs::path(directory) / "tokenizer.json");
}

at::ScalarType parse_dtype(const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  const std::vector<std::string> known = {"float32", "bfloat16"};
  fail(ExitCode::usage, "--dtype '", name, "' is not one of: float32, bfloat16.", did_you_mean(name, known));
}

ModelOptions ModelOptions::of_rank(const Communicator& ranks) const {
  ModelOptions own = *this;
  own.device = device_of_rank(device, ranks);
  own.threads = threads_of_rank(threads, ranks);
  return own;
}

std::optional<WeightFormat> parse_weights(const std::string& name) {
  if (name == "full") return std::nullopt;
  if (name == "int8") return WeightFormat::int8;
  if (name == "int4") return WeightFormat::int4;
  const std::vector<std::string> known = {"full", "int8", "int4"};
  fail(ExitCode::usage, "--weights '", name, "' is not one of: full, int8, int4.", did_you_mean(name, known));
}

LoadedModel ModelOptions::load() const {
  set_num_threads(threads);
  const at::ScalarType type = parse_dtype(dtype);
  const std::optional<WeightFormat> format = parse_weights(weights);
  const at::Device place = parse_device(device);
  if (format && !place.is_cpu()) {
    fail(ExitCode::usage, "--weights ", weights, " is for --device cpu, not for ", device);
  }
  LoadedModel loaded = load_model(model, place);
  loaded.model->set_compute_dtype(type);
  if (format) loaded.model->quantise_weights(*format);
  return loaded;
}

std::unique_ptr<Tokenizer> ModelOptions::load_tokenizer_for(const LoadedModel& loaded) const {
  std::string spec = tokenizer;
  if (spec.empty()) {
    if (!has_tokenizer(loaded.directory)) {
      fail(ExitCode::data, "no tokenizer in '", loaded.directory,
           "': name one with --tokenizer (\"byte\", a SentencePiece "
           "model or a folder that holds one)");
    }
    spec = loaded.directory;
  }
  std::unique_ptr<Tokenizer> result = load_tokenizer(spec);
  if (result->vocab_size() > loaded.model->config().vocab_size) {
    fail(ExitCode::data, "tokenizer '", spec, "' has ", result->vocab_size(), " tokens, the model's vocabulary only ",
         loaded.model->config().vocab_size);
  }
  return result;
}

std::optional<std::int64_t> trained_document_end(const LoadedModel& loaded) {
  const std::string path = (fs::path(loaded.directory) / "run_config.json").string();
  if (!fs::exists(path)) return std::nullopt;
  const Json json = read_json_file(path, ExitCode::checkpoint);
  const Json::json_pointer pointer("/data/mask_documents");
  if (!json.contains(pointer) || json[pointer] != true) return std::nullopt;
  if (has_tokenizer(loaded.directory)) return load_tokenizer(loaded.directory)->eos_id();
  return loaded.model->config().eos_token_id;
}

std::int64_t trained_seq_length(const LoadedModel& loaded) {
  const std::int64_t context = loaded.model->config().max_position_embeddings;
  const std::string path = (fs::path(loaded.directory) / "run_config.json").string();
  if (!fs::exists(path)) return context;
  const Json json = read_json_file(path, ExitCode::checkpoint);
  const Json::json_pointer pointer("/data/seq_length");
  if (!json.contains(pointer) || !json[pointer].is_number_integer()) return context;
  return json[pointer].get<std::int64_t>();
}

}  // namespace satformer::cli
