#include "nn/values/value_paths.h"

#include "base/error.h"

namespace satformer {
namespace {

class OwnValues : public ValuePath {
 public:
  explicit OwnValues(std::int64_t layers) : layers_(static_cast<std::size_t>(layers)) {}
  at::Tensor mix(std::int64_t layer, const at::Tensor&, const at::Tensor& v_BTHD, ValueState&,
                 const ValueContext& context) const override {
    return context.observer ? context.observer->values(layer, v_BTHD, v_BTHD) : v_BTHD;
  }
  std::vector<TokenMix> token_mixes(ComputeWeights&) const override { return std::vector<TokenMix>(layers_); }

 private:
  std::size_t layers_;
};

}  // namespace

std::unique_ptr<ValuePath> make_value_path(const ModelConfig& config, ParameterStore& store) {
  const std::string name = config.effective_value_path();
  if (name == "own") return std::make_unique<OwnValues>(config.num_hidden_layers);
  if (name == "resformer") return make_resformer_values(config, store);
  if (name == "satformer") return make_satformer_values(config, store);
  if (name == "fixed") return make_fixed_values(config);
  if (name == "svformer") return make_svformer_values(config);
  if (name == "neutreno") return make_neutreno_values(config);
  if (name == "lime") return make_lime_values(config, store);
  fail(ExitCode::config, "unknown value_path '", name, "'");
}

}  // namespace satformer
