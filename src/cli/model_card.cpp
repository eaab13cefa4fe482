#include "cli/model_card.h"

#include <cstdio>

#include "base/error.h"
#include "base/progress.h"

namespace satformer::cli {
namespace {

std::string scientific(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

}  // namespace

std::string ModelCard::text() const {
  const ModelConfig& c = model.config();
  const bool own = form == HfForm::own;
  std::string t = "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags:\n- satformer\n";
  if (model.architecture() != "satformer") t += concat("- ", model.architecture(), "\n");
  t += "---\n\n";
  t += concat("# ", hf_class(model, form), "\n\n");
  t +=
      concat("A decoder of ", c.num_hidden_layers, " layers, width ", c.hidden_size, ", ", c.num_heads, " query and ",
             c.kv_heads(), " key and value heads, ", human_count(static_cast<double>(model.parameters().count())),
             " parameters, vocabulary ", c.vocab_size, ", context ", c.max_position_embeddings,
             ". Residual routing: ", c.residual_routing, ". Value path: ", c.effective_value_path(), ".\n\n");
  t += concat("## Use\n\n```python\nfrom transformers import AutoModelForCausalLM",
              tokenizer.empty() ? "" : ", AutoTokenizer", "\n\nmodel = AutoModelForCausalLM.from_pretrained(\"PATH\"",
              own ? ", trust_remote_code=True" : "", ")\n");
  if (!tokenizer.empty() && no_tokenizer_json.empty()) {
    t += concat("tokenizer = AutoTokenizer.from_pretrained(\"PATH\"", own ? ", trust_remote_code=True" : "", ")\n");
    t += "inputs = tokenizer([\"The\"], return_tensors=\"pt\", return_token_type_ids=False)\n"
         "print(tokenizer.batch_decode(model.generate(**inputs, max_new_tokens=50)))\n";
  }
  t += "```\n\n";
  if (own) {
    t += "The modelling files beside the weights need torch and transformers 5 and nothing else.\n\n";
  }
  if (!no_tokenizer_json.empty())
    t += concat("Tokenizer: tokenizer.model (SentencePiece). There is no tokenizer.json: ", no_tokenizer_json,
                ".\n\n");
  if (!tokenizer.empty()) t += "Texts are encoded without a begin-of-sequence token, as in training.\n\n";
  t += "## Checked when exported\n\n";
  if (!check) return t + "Not checked (`--no-check`).\n";
  t += concat("Largest difference of logits from the model that was exported, in fp32; the largest logit is ",
              check->size, ":\n\n| loaded by | max abs difference |\n| --- | ---: |\n");
  t += concat("| satformer | ", scientific(check->reader), " |\n");
  if (const auto& other = check->transformers) {
    t += concat("| transformers ", other->version, " | ", scientific(other->logits),
                " |\n| the same, left-padded rows | ", scientific(other->padded), " |\n\nGreedy continuations: ",
                other->generate == 0 ? "equal" : "they part where two tokens are nearly equal", ".");
    if (other->texts > 0) t += concat(" Token ids of ", other->texts, " texts: equal.");
    t += "\n";
  } else {
    t += concat("\ntransformers was not asked: ", check->not_done, ".\n");
  }
  return t;
}

}  // namespace satformer::cli
