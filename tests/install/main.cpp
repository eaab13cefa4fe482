// A program outside the source tree: describes a small SATFormer, with headers and libraries of an installation.
#include <cstdio>

#include "base/json.h"
#include "io/tokenizer.h"
#include "models/registry.h"

int main() {
  const satformer::Architecture& architecture = satformer::architecture_by_name("satformer");
  satformer::ModelConfig config;
  config.hidden_size = 64;
  config.num_heads = 4;
  config.num_hidden_layers = 2;
  config.residual_routing = architecture.residual_routing;
  config.value_path = architecture.value_path;
  const auto model = satformer::make_model(architecture, config, at::Device(at::kMeta));
  const auto tokenizer = satformer::make_byte_tokenizer();
  std::printf("%s: %lld parameters, %lld byte tokens\n", architecture.name.c_str(),
              static_cast<long long>(model->parameters().count()), static_cast<long long>(tokenizer->vocab_size()));
  return model->parameters().count() > 0 && tokenizer->vocab_size() == 259 ? 0 : 1;
}
