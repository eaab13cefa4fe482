#include "checkpoint/gguf/export.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "checkpoint/gguf/blocks.h"
#include "checkpoint/renamed.h"
#include "checkpoint/tensor_io.h"

namespace satformer {
namespace {

constexpr std::pair<const char*, const char*> gguf_parts[] = {
    {"model.layers.", "blk."},          {"model.embeddings.", "token_embd."},
    {"model.norm.", "output_norm."},    {"lm_head.", "output."},
    {".attn.q_norm.", ".attn_q_norm."}, {".attn.k_norm.", ".attn_k_norm."},
    {".attn.q_proj.", ".attn_q."},      {".attn.k_proj.", ".attn_k."},
    {".attn.v_proj.", ".attn_v."},      {".attn.o_proj.", ".attn_output."},
    {".mlp_norm.", ".ffn_norm."},       {".mlp.gate_proj.", ".ffn_gate."},
    {".mlp.up_proj.", ".ffn_up."},      {".mlp.down_proj.", ".ffn_down."},
};

constexpr const char* rope_tensor = "rope_freqs.weight";

std::string gguf_tensor_name(const std::string& name) { return renamed(name, gguf_parts); }

// "llama" turns neighbouring rows of a head together, where this program turns a row of the first half with one of
// the second. 0: the tensor has no such rows, else the number of heads.
std::int64_t turned_heads(const std::string& parameter, const ModelConfig& config, const std::string& architecture) {
  if (architecture != "llama") return 0;
  if (parameter.find(".attn.q_proj.") != std::string::npos) return config.num_heads;
  return parameter.find(".attn.k_proj.") != std::string::npos ? config.kv_heads() : 0;
}

at::Tensor halves_to_pairs(const at::Tensor& rows, std::int64_t heads) {
  const std::int64_t half = rows.size(0) / heads / 2;
  return rows.reshape({heads, 2, half, -1}).transpose(1, 2).reshape(rows.sizes());
}

at::Tensor pairs_to_halves(const at::Tensor& rows, std::int64_t heads) {
  const std::int64_t half = rows.size(0) / heads / 2;
  return rows.reshape({heads, half, 2, -1}).transpose(1, 2).reshape(rows.sizes());
}

template <class... What>
[[noreturn]] void no_decoder(const What&... what) {
  fail(ExitCode::checkpoint, "llama.cpp has no decoder for this model: ", what...);
}

std::uint32_t file_type(GgufType type) {
  switch (type) {
    case GgufType::f32:
      return 0;
    case GgufType::f16:
      return 1;
    case GgufType::q8_0:
      return 7;
    case GgufType::bf16:
      return 32;
  }
  return 0;
}

}  // namespace

std::string gguf_architecture(const ModelConfig& c) {
  if (c.effective_value_path() != "own") no_decoder("its value path is '", c.effective_value_path(), "'");
  if (c.residual_routing != "plain") no_decoder("its residual routing is '", c.residual_routing, "'");
  if (c.window_size) no_decoder("its attention has a window (window_size ", *c.window_size, ")");
  if (c.norm_type != "rms") no_decoder("its norms are LayerNorms");
  if (c.position_type != "rotary") no_decoder("it learns its positions");
  if (c.mlp_type != "gated") no_decoder("its feed-forward is not gated");
  if (c.linear_bias) no_decoder("its output projections have biases");
  if (c.qk_norm && c.qkv_bias) no_decoder("it has qk_norm and qkv_bias together");
  if (c.qk_norm && c.qk_norm_eps != c.norm_eps) {
    no_decoder("qk_norm_eps ", c.qk_norm_eps, " and norm_eps ", c.norm_eps, " differ, and a file has one epsilon");
  }
  return c.qk_norm ? "qwen3" : c.qkv_bias ? "qwen2" : "llama";
}

namespace {

at::Tensor divided_frequencies(const ModelConfig& c) {
  return rope_factors(c.head_dim(), c.rope_theta, c.rope_scaling()).reciprocal();
}

template <class T>
T required(const GgufFile& file, const std::string& path, const std::string& key) {
  const T* value = file.get<T>(key);
  if (!value) fail(ExitCode::checkpoint, path, ": '", key, "' is missing");
  return *value;
}

// The rotary embedding that a file written here describes.
void read_rope(const GgufFile& file, const std::string& path, const std::string& prefix, ModelConfig& c) {
  const auto number = [&](const std::string& key) { return static_cast<double>(required<float>(file, path, key)); };
  c.rope_theta = number(prefix + "rope.freq_base");
  if (const auto* type = file.get<std::string>(prefix + "rope.scaling.type"); type && *type == "linear") {
    c.rope_type = "linear";
    c.rope_factor = number(prefix + "rope.scaling.factor");
  }
  const GgufTensor* factors = file.find(rope_tensor);
  if (!factors) return;
  c.rope_type = "llama3";
  c.rope_factor = number("satformer.rope.factor");
  c.rope_low_freq_factor = number("satformer.rope.low_freq_factor");
  c.rope_high_freq_factor = number("satformer.rope.high_freq_factor");
  c.rope_original_positions = required<std::uint32_t>(file, path, "satformer.rope.original_positions");
  const at::Tensor told = tensor_from_gguf(*factors), own = divided_frequencies(c);
  if (told.sizes() != own.sizes() || !told.allclose(own, 1e-6)) {
    fail(ExitCode::checkpoint, path, ": the tensor ", rope_tensor, " does not agree with the scaling that it names");
  }
}

}  // namespace

GgufMetadata gguf_metadata(const Model& model, const std::string& name, GgufType type) {
  const ModelConfig& c = model.config();
  const std::string architecture = gguf_architecture(c), prefix = architecture + ".";
  GgufMetadata meta = {{"general.architecture", architecture},
                       {"general.type", std::string("model")},
                       {"general.name", name},
                       {"general.file_type", file_type(type)}};
  if (type == GgufType::q8_0) meta.emplace_back("general.quantization_version", std::uint32_t{2});
  const auto count = [&](const char* key, std::int64_t value) {
    meta.emplace_back(prefix + key, static_cast<std::uint32_t>(value));
  };
  count("vocab_size", c.vocab_size);
  count("context_length", c.max_position_embeddings);
  count("embedding_length", c.hidden_size);
  count("block_count", c.num_hidden_layers);
  count("feed_forward_length", c.ffn_size(0));
  count("attention.head_count", c.num_heads);
  count("attention.head_count_kv", c.kv_heads());
  count("attention.key_length", c.head_dim());
  count("attention.value_length", c.head_dim());
  count("rope.dimension_count", c.head_dim());
  meta.emplace_back(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(c.norm_eps));
  meta.emplace_back(prefix + "rope.freq_base", static_cast<float>(c.rope_theta));
  if (c.rope_type == "linear") {
    meta.emplace_back(prefix + "rope.scaling.type", std::string("linear"));
    meta.emplace_back(prefix + "rope.scaling.factor", static_cast<float>(c.rope_factor));
  }
  if (c.rope_type == "llama3") {  // llama.cpp reads the tensor of factors alone; these say where it comes from
    meta.emplace_back("satformer.rope.factor", static_cast<float>(c.rope_factor));
    meta.emplace_back("satformer.rope.low_freq_factor", static_cast<float>(c.rope_low_freq_factor));
    meta.emplace_back("satformer.rope.high_freq_factor", static_cast<float>(c.rope_high_freq_factor));
    meta.emplace_back("satformer.rope.original_positions", static_cast<std::uint32_t>(c.rope_original_positions));
  }
  return meta;
}

void write_gguf_model(const Model& model, const GgufMetadata& metadata, GgufType type, const std::string& path) {
  const at::NoGradGuard no_grad;
  const std::string architecture = gguf_architecture(model.config());
  const auto& parameters = model.parameters().list();
  std::vector<GgufTensor> tensors;
  for (const Parameter& p : parameters) {
    GgufTensor t{gguf_tensor_name(p.name), p.value.dim() > 1 ? type : GgufType::f32, p.value.sizes().vec()};
    if (t.type == GgufType::q8_0 && t.shape.back() % q8_0_block != 0) {
      fail(ExitCode::usage, "--dtype q8_0 needs rows of whole blocks of ", q8_0_block, " numbers, and ", p.name,
           " is ", shape_text(p.value.sizes()));
    }
    tensors.push_back(std::move(t));
  }
  // What frequencies are divided by.
  if (model.config().rope_type == "llama3") {
    tensors.push_back({rope_tensor, GgufType::f32, {model.config().head_dim() / 2}});
  }
  write_gguf(path, metadata, tensors, [&](std::size_t i) {
    if (i == parameters.size()) return gguf_bytes(divided_frequencies(model.config()), GgufType::f32);
    at::Tensor value = parameters[i].value.detach().cpu();
    const std::int64_t heads = turned_heads(parameters[i].name, model.config(), architecture);
    if (heads > 0) value = halves_to_pairs(value, heads);
    return gguf_bytes(value, tensors[i].type);
  });
}

std::unique_ptr<Model> read_gguf_model(const std::string& path) {
  const GgufFile file(path);
  const auto* named = file.get<std::string>("general.architecture");
  const std::string architecture = named ? *named : std::string();
  if (architecture != "llama" && architecture != "qwen2" && architecture != "qwen3") {
    fail(ExitCode::checkpoint, path, ": architecture '", architecture, "' is not one of: llama, qwen2, qwen3");
  }
  const auto count = [&](const char* key) {
    return static_cast<std::int64_t>(required<std::uint32_t>(file, path, architecture + "." + key));
  };
  const auto number = [&](const char* key) {
    return static_cast<double>(required<float>(file, path, architecture + "." + key));
  };
  const Architecture& transformer = architecture_by_name("transformer");
  ModelConfig c = default_model_config(transformer);
  c.vocab_size = count("vocab_size");
  c.max_position_embeddings = count("context_length");
  c.hidden_size = count("embedding_length");
  c.num_hidden_layers = count("block_count");
  c.intermediate_size = count("feed_forward_length");
  c.num_heads = count("attention.head_count");
  c.num_kv_heads = count("attention.head_count_kv");
  c.norm_eps = c.qk_norm_eps = number("attention.layer_norm_rms_epsilon");
  if (const std::int64_t size = count("attention.key_length"); size * c.num_heads != c.hidden_size)
    c.head_size = size;
  read_rope(file, path, architecture + ".", c);
  c.qk_norm = architecture == "qwen3";
  c.qkv_bias = architecture == "qwen2";
  c.tie_word_embeddings = file.find("output.weight") == nullptr;
  c.bos_token_id = std::min(c.bos_token_id, c.vocab_size - 1);
  c.eos_token_id = std::min(c.eos_token_id, c.vocab_size - 1);
  c.validate();
  std::unique_ptr<Model> model = make_model(transformer, c, at::Device(at::kCPU));
  const at::NoGradGuard no_grad;
  for (Parameter& p : model->parameters().list()) {
    const std::string name = gguf_tensor_name(p.name);
    const GgufTensor* tensor = file.find(name);
    if (!tensor) fail(ExitCode::checkpoint, path, ": tensor ", name, " is missing");
    if (tensor->shape != p.value.sizes().vec()) {
      fail(ExitCode::checkpoint, path, ": tensor ", name, " is ", shape_text(tensor->shape), ", not ",
           shape_text(p.value.sizes()));
    }
    at::Tensor value = tensor_from_gguf(*tensor);
    const std::int64_t heads = turned_heads(p.name, c, architecture);
    p.value.copy_(heads > 0 ? pairs_to_halves(value, heads) : value);
  }
  const std::size_t expected = model->parameters().list().size() + (c.rope_type == "llama3" ? 1 : 0);
  if (file.tensors().size() != expected) {
    fail(ExitCode::checkpoint, path, ": it has ", file.tensors().size(), " tensors, expected ", expected);
  }
  return model;
}

}  // namespace satformer
