#include "checkpoint/hf/import.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/hf/export.h"
#include "checkpoint/renamed.h"
#include "checkpoint/weight_file.h"

namespace satformer {
namespace {

using Names = ForeignConfig::Names;

// Reads one config.json; every complaint names the file and the key.
class ConfigReader {
 public:
  ConfigReader(const Json& json, const std::string& origin) : json_(json), origin_(origin) {}

  template <class... What>
  [[noreturn]] void refuse(const char* key, const What&... what) const {
    fail(ExitCode::checkpoint, origin_, ": ", key, " ", at(key).dump(), ": ", what...);
  }
  const Json& at(const char* key) const {
    static const Json null;
    const auto found = json_.find(key);
    return found == json_.end() ? null : *found;
  }
  bool has(const char* key) const { return !at(key).is_null(); }
  std::int64_t integer(const char* key, std::int64_t otherwise = -1) const {
    if (!has(key)) {
      if (otherwise >= 0) return otherwise;
      fail(ExitCode::checkpoint, origin_, ": '", key, "' is missing");
    }
    if (!at(key).is_number_integer() || at(key) < 1) refuse(key, "expected a positive whole number");
    return at(key).get<std::int64_t>();
  }
  double number(const char* key, double otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_number()) refuse(key, "expected a number");
    return at(key).get<double>();
  }
  bool boolean(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) refuse(key, "expected true or false");
    return at(key).get<bool>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_string()) refuse(key, "expected a text");
    return at(key).get<std::string>();
  }
  // The first id where a list is given: others would only end a text as well.
  std::int64_t id(const char* key, std::int64_t otherwise) const {
    const Json& value = at(key).is_array() && !at(key).empty() ? at(key)[0] : at(key);
    if (value.is_null()) return otherwise;
    if (!value.is_number_integer() || value < 0) refuse(key, "expected a token id");
    return value.get<std::int64_t>();
  }
  const std::string& origin() const { return origin_; }

 private:
  const Json& json_;
  const std::string& origin_;
};

// The rotary embedding: rope_theta and rope_scaling, since transformers 5 rope_parameters. Partial rotations and
// other kinds of scaling are refused.
void read_rope(const ConfigReader& in, ModelConfig& c) {
  c.rope_theta = in.number("rope_theta", 10000.0);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!in.has(key)) continue;
    if (!in.at(key).is_object()) in.refuse(key, "expected an object");
    const ConfigReader rope(in.at(key), in.origin());
    const std::string kind = rope.text("rope_type", rope.text("type", "default"));
    if (kind != "default" && kind != "linear" && kind != "llama3") {
      in.refuse(key, "rotary embeddings scaled as '", kind, "' are not supported, but linear and llama3 are");
    }
    if (rope.number("partial_rotary_factor", 1.0) != 1.0) {
      in.refuse(key, "a rotation of a part of each head is not supported");
    }
    c.rope_theta = rope.number("rope_theta", c.rope_theta);
    if (kind == "default") continue;
    c.rope_type = kind;
    if (!rope.has("factor")) in.refuse(key, "'factor' is missing");
    c.rope_factor = rope.number("factor", 1);
    if (kind == "linear") continue;
    for (const char* needed : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
      if (!rope.has(needed)) in.refuse(key, "'", needed, "' is missing");
    }
    c.rope_low_freq_factor = rope.number("low_freq_factor", 1);
    c.rope_high_freq_factor = rope.number("high_freq_factor", 4);
    c.rope_original_positions = rope.integer("original_max_position_embeddings");
  }
  if (in.number("partial_rotary_factor", 1.0) != 1.0) {
    in.refuse("partial_rotary_factor", "a rotation of a part of each head is not supported");
  }
}

std::optional<std::int64_t> window(const ConfigReader& in, const std::string& type) {
  const Json& kinds = in.at("layer_types");
  const bool in_use = type == "mistral" || in.boolean("use_sliding_window", false);
  if (type == "llama" || !in_use || !in.has("sliding_window")) {
    if (kinds.is_array() &&
        std::any_of(kinds.begin(), kinds.end(), [](const Json& k) { return k != "full_attention"; }))
      in.refuse("layer_types", "only full attention in every layer is supported here");
    return std::nullopt;
  }
  if (type != "mistral" && in.has("max_window_layers") && in.at("max_window_layers") != 0) {
    in.refuse("max_window_layers", "a window in a part of the layers is not supported");
  }
  return in.integer("sliding_window");
}

ModelConfig llama_config(const ConfigReader& in, const std::string& type) {
  ModelConfig c = default_model_config(architecture_by_name("transformer"));
  c.vocab_size = in.integer("vocab_size");
  c.hidden_size = in.integer("hidden_size");
  c.num_hidden_layers = in.integer("num_hidden_layers");
  c.num_heads = in.integer("num_attention_heads");
  c.num_kv_heads = in.integer("num_key_value_heads", c.num_heads);
  c.intermediate_size = in.integer("intermediate_size");
  c.max_position_embeddings = in.integer("max_position_embeddings", 2048);
  c.norm_eps = in.number("rms_norm_eps", 1e-6);
  c.initializer_range = in.number("initializer_range", 0.02);
  read_rope(in, c);
  c.window_size = window(in, type);
  c.tie_word_embeddings = in.boolean("tie_word_embeddings", false);
  c.qkv_bias = type == "qwen2";
  c.qk_norm = type == "qwen3";
  c.qk_norm_eps = c.norm_eps;
  const std::string activation = in.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") in.refuse("hidden_act", "only silu is supported");
  if (in.boolean("attention_bias", false) && type != "qwen2") {
    in.refuse("attention_bias", "a bias on the output projection is not supported");
  }
  if (in.boolean("mlp_bias", false)) in.refuse("mlp_bias", "biases in the feed-forward are not supported");
  // A Qwen3 without the key has heads of 128, whatever its width.
  const std::int64_t head_dim =
      in.integer("head_dim", type == "qwen3" ? 128 : std::max<std::int64_t>(1, c.hidden_size / c.num_heads));
  if (head_dim * c.num_heads != c.hidden_size) c.head_size = head_dim;
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {
    if (in.has(key) && in.at(key) != 0) in.refuse(key, "mixtures of experts are not supported");
  }
  c.bos_token_id = std::min(in.id("bos_token_id", 1), c.vocab_size - 1);
  c.eos_token_id = in.id("eos_token_id", 2);
  if (in.has("pad_token_id") && in.at("pad_token_id").is_number_integer() && in.at("pad_token_id") >= 0) {
    c.pad_token_id = in.id("pad_token_id", 0);
  }
  return c;
}

ModelConfig gpt2_config(const ConfigReader& in) {
  ModelConfig c = default_model_config(architecture_by_name("transformer"));
  c.vocab_size = in.integer("vocab_size", 50257);
  c.hidden_size = in.integer("n_embd", 768);
  c.num_hidden_layers = in.integer("n_layer", 12);
  c.num_heads = in.integer("n_head", 12);
  c.intermediate_size = in.integer("n_inner", 4 * c.hidden_size);
  c.max_position_embeddings = in.integer("n_positions", 1024);
  c.norm_eps = in.number("layer_norm_epsilon", 1e-5);
  c.initializer_range = in.number("initializer_range", 0.02);
  c.tie_word_embeddings = in.boolean("tie_word_embeddings", true);
  c.position_type = "learned";
  c.norm_type = "layer";
  c.mlp_type = "plain";
  c.qkv_bias = c.linear_bias = true;
  const std::string activation = in.text("activation_function", "gelu_new");
  c.hidden_act = activation == "gelu_pytorch_tanh" ? "gelu_new" : activation;
  if (c.hidden_act != "gelu_new" && c.hidden_act != "gelu" && c.hidden_act != "relu") {
    in.refuse("activation_function", "only gelu_new, gelu and relu are supported");
  }
  if (!in.boolean("scale_attn_weights", true)) in.refuse("scale_attn_weights", "unscaled scores are not supported");
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (in.boolean(key, false)) in.refuse(key, "not supported");
  }
  const std::int64_t end = std::min<std::int64_t>(50256, c.vocab_size - 1);
  c.bos_token_id = in.id("bos_token_id", end);
  c.eos_token_id = in.id("eos_token_id", end);
  return c;
}

constexpr std::pair<const char*, const char*> gpt2_parts[] = {
    {"model.embeddings.", "wte."}, {"model.positions.", "wpe."}, {"model.norm.", "ln_f."},
    {"model.layers.", "h."},       {".attn_norm.", ".ln_1."},    {".mlp_norm.", ".ln_2."},
    {".q_proj.", ".c_attn."},      {".k_proj.", ".c_attn."},     {".v_proj.", ".c_attn."},
    {".o_proj.", ".c_proj."},      {".up_proj.", ".c_fc."},      {".down_proj.", ".c_proj."},
};

// Its matrices lie transposed, those of queries, keys and values side by side.
at::Tensor from_gpt2(const std::string& parameter, const at::Tensor& in_file) {
  const bool projection = parameter.find("_proj.") != std::string::npos;
  if (!projection) return in_file;
  at::Tensor t = in_file;
  constexpr const char* of_three[] = {".q_proj.", ".k_proj.", ".v_proj."};
  for (std::int64_t i = 0; i < 3; ++i) {
    if (parameter.find(of_three[i]) == std::string::npos || t.dim() == 0 || t.size(-1) % 3 != 0) continue;
    t = t.narrow(-1, i * (t.size(-1) / 3), t.size(-1) / 3);
  }
  return t.dim() == 2 ? t.t() : t;
}

TensorNames gpt2_names(const std::string& weights) {
  const std::string prefix = WeightFile(weights).contains("transformer.wte.weight") ? "transformer." : "";
  TensorNames names;
  names.in_file = [prefix](const std::string& parameter) {
    return parameter.starts_with("lm_head.") ? parameter : prefix + renamed(parameter, gpt2_parts);
  };
  names.ignored = [](const std::string& name) {  // the causal mask
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
  };
  names.converted = from_gpt2;
  return names;
}

}  // namespace

ForeignConfig read_hf_config(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::is_directory(directory, error)) {
    fail(ExitCode::checkpoint, "'", directory, "' is not a folder with config.json and weights");
  }
  const std::string origin = directory + "/config.json";
  const Json json = read_json_file(origin, ExitCode::checkpoint);
  if (!json.is_object()) fail(ExitCode::checkpoint, origin, ": not a JSON object");
  const ConfigReader in(json, origin);
  if (in.has("quantization_config")) in.refuse("quantization_config", "quantised weights are not supported");
  const std::string type = in.text("model_type", "");
  if (is_importable(json)) {
    const bool llama = type != "gpt2";
    ModelConfig translated = llama ? llama_config(in, type) : gpt2_config(in);
    ForeignConfig result{"transformer", default_model_config(architecture_by_name("transformer")),
                         llama ? Names::llama : Names::gpt2};
    ConfigBinding(result.config).apply_json(ConfigBinding(translated).to_json(), origin);  // checks bounds
    try {
      result.config.validate();
    } catch (const Error& wrong) {
      fail(wrong.code(), origin, ": ", wrong.what());
    }
    if (in.at("eos_token_id").is_array() && in.at("eos_token_id").size() > 1) {
      result.remarks.push_back(
          concat("of eos_token_id ", in.at("eos_token_id").dump(), " the first, ", result.config.eos_token_id,
                 ", ends a text; give the others' texts as stop strings (a chat template's own end is "
                 "known to 'satformer serve')"));
    }
    return result;
  }
  if (type.empty()) {
    fail(ExitCode::checkpoint, origin,
         ": no 'model_type': this is no model in the form of Hugging Face (models and runs of this program need no "
         "import)");
  }
  std::vector<std::string> known = importable_types();
  for (const Architecture& a : architectures()) {
    if (a.model_type == type) {
      const LoadedModel described = describe_model(directory, at::Device(at::kMeta));
      return {described.model->architecture(), described.model->config(), Names::own};
    }
    known.push_back(a.model_type);
  }
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  fail(ExitCode::checkpoint, origin, ": model_type '", type, "' is not one of: ", list, ".",
       did_you_mean(type, known));
}

LoadedModel import_hf_model(const std::string& directory, at::Device device, std::vector<std::string>* remarks) {
  const ForeignConfig foreign = read_hf_config(directory);
  if (remarks) *remarks = foreign.remarks;
  const std::string weights = find_weights(directory);
  if (weights.empty()) {
    fail(ExitCode::checkpoint, directory,
         ": no weights: expected model.safetensors, pytorch_model.bin or an index "
         "of parts (model.safetensors.index.json)");
  }
  LoadedModel loaded{make_model(architecture_by_name(foreign.architecture), foreign.config, device), directory};
  TensorNames names;
  if (foreign.names == Names::gpt2) names = gpt2_names(weights);
  if (foreign.names == Names::llama) {
    names.in_file = llama_tensor_name;
    names.ignored = [](const std::string& name) { return name.ends_with(".rotary_emb.inv_freq"); };
  }
  load_weights(*loaded.model, weights, names);
  for (const Parameter& p : loaded.model->parameters().list()) {
    if (p.value.is_meta() || p.value.detach().sum(at::kDouble).isfinite().item<bool>()) continue;
    fail(ExitCode::checkpoint, weights, ": the weights of ", p.name, " are not all finite");
  }
  return loaded;
}

}  // namespace satformer
