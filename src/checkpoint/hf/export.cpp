#include "checkpoint/hf/export.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoint/hf/files.h"
#include "checkpoint/model_io.h"
#include "checkpoint/renamed.h"
#include "checkpoint/tensor_io.h"
#include "checkpoint/weight_file.h"
#include "io/file.h"

namespace satformer {
namespace {

constexpr std::pair<const char*, const char*> llama_parts[] = {
    {"model.embeddings.", "model.embed_tokens."},
    {".attn_norm.", ".input_layernorm."},
    {".mlp_norm.", ".post_attention_layernorm."},
    {".attn.", ".self_attn."},
};
constexpr const char* modelling_files[] = {"configuration_satformer.py", "layers_satformer.py",
                                           "modeling_satformer.py"};

// Rotary embeddings as transformers 5 describes them.
Json rope_parameters(const ModelConfig& c) {
  Json rope = {{"rope_type", c.rope_type}, {"rope_theta", c.rope_theta}};
  if (c.rope_type != "default") rope["factor"] = c.rope_factor;
  if (c.rope_type == "llama3") {
    rope["low_freq_factor"] = c.rope_low_freq_factor;
    rope["high_freq_factor"] = c.rope_high_freq_factor;
    rope["original_max_position_embeddings"] = c.rope_original_positions;
  }
  return rope;
}

Json optional_id(std::int64_t id) { return id >= 0 ? Json(id) : Json(nullptr); }

void add_llama_fields(const ModelConfig& c, HfForm form, Json& json) {
  json["model_type"] = form == HfForm::llama ? "llama" : "qwen3";
  json["vocab_size"] = c.vocab_size;
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.ffn_size(0);
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_heads;
  json["num_key_value_heads"] = c.kv_heads();
  json["head_dim"] = c.head_dim();
  json["hidden_act"] = "silu";
  json["max_position_embeddings"] = c.max_position_embeddings;
  json["initializer_range"] = c.initializer_range;
  json["rms_norm_eps"] = c.norm_eps;
  json["rope_parameters"] = rope_parameters(c);
  json["rope_theta"] = c.rope_theta;  // before 5
  if (c.rope_type != "default") {
    json["rope_scaling"] = json["rope_parameters"];
    json["rope_scaling"].erase("rope_theta");
  }
  json["attention_bias"] = false;
  json["attention_dropout"] = 0.0;
  if (form == HfForm::llama) json["mlp_bias"] = false;
  if (form == HfForm::qwen3) json["use_sliding_window"] = false;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  json["use_cache"] = true;
}

}  // namespace

HfForm hf_form(const ModelConfig& c) {
  const bool plain = c.residual_routing == "plain" && c.effective_value_path() == "own";
  if (!plain || c.qkv_bias || c.linear_bias || c.window_size || c.use_l2warp) return HfForm::own;
  if (c.norm_type != "rms" || c.position_type != "rotary" || c.mlp_type != "gated") return HfForm::own;
  if (!c.qk_norm) return HfForm::llama;
  return c.qk_norm_eps == c.norm_eps ? HfForm::qwen3 : HfForm::own;
}

std::string hf_class(const Model& model, HfForm form) {
  if (form == HfForm::llama) return "LlamaForCausalLM";
  if (form == HfForm::qwen3) return "Qwen3ForCausalLM";
  return architecture_by_name(model.architecture()).class_name;
}

std::string llama_tensor_name(const std::string& parameter) { return renamed(parameter, llama_parts); }

Json hf_config(const Model& model, HfForm form, const HfTokenIds& ids) {
  const ModelConfig& c = model.config();
  Json json = Json::object();
  if (form == HfForm::own) {
    const Architecture& architecture = architecture_by_name(model.architecture());
    json = model_config_json(model);
    json["auto_map"] = {{"AutoConfig", concat("configuration_satformer.", architecture.config_class)},
                        {"AutoModelForCausalLM", concat("modeling_satformer.", architecture.class_name)}};
    json["rope_parameters"] = rope_parameters(c);
  } else {
    json["architectures"] = {hf_class(model, form)};
    add_llama_fields(c, form, json);
    json["dtype"] = json["torch_dtype"] = model_config_json(model)["dtype"];
  }
  // Our own fields know no absent id.
  const bool own = form == HfForm::own;
  json["bos_token_id"] = own && ids.bos < 0 ? Json(c.bos_token_id) : optional_id(ids.bos);
  json["eos_token_id"] = own && ids.eos < 0 ? Json(c.eos_token_id) : optional_id(ids.eos);
  json["pad_token_id"] = c.pad_token_id ? Json(*c.pad_token_id) : Json(nullptr);
  return json;
}

Json hf_generation_config(const Model& model, const HfTokenIds& ids) {
  const ModelConfig& c = model.config();
  Json json = Json::object();
  if (ids.bos >= 0) json["bos_token_id"] = ids.bos;
  if (ids.eos >= 0) json["eos_token_id"] = ids.eos;
  const std::int64_t pad = c.pad_token_id.value_or(ids.eos);
  if (pad >= 0) json["pad_token_id"] = pad;
  json["max_length"] = c.max_position_embeddings;
  return json;
}

void write_hf_model(const Model& model, HfForm form, const HfTokenIds& ids, std::int64_t max_shard_bytes,
                    const std::string& directory) {
  std::vector<at::Tensor> host;
  std::vector<TensorView> views;
  for (const Parameter& p : model.parameters().list()) {
    host.push_back(p.value.detach().cpu().contiguous());
    views.push_back(view_of_tensor(form == HfForm::own ? p.name : llama_tensor_name(p.name), host.back()));
  }
  write_weights(directory, views, max_shard_bytes);
  write_file_atomic(directory + "/config.json", hf_config(model, form, ids).dump(2) + "\n");
  write_file_atomic(directory + "/generation_config.json", hf_generation_config(model, ids).dump(2) + "\n");
  if (form != HfForm::own) return;
  for (const char* file : modelling_files) write_file_atomic(directory + "/" + file, hf_file(file));
}

}  // namespace satformer
