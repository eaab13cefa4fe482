// Published relatives without parameters, from layer 0's values V_1 (arXiv 2410.17897, 2312.00751):
//   fixed     V' = 0.5 V_1 + 0.5 V
//   svformer  V' = V_1; the layer has no value projection
//   neutreno  V' = 0.5 V_1 + 0.5 V (or V), and lambda (V_1 - V') added to attention's output
#include "base/error.h"
#include "nn/values/sources.h"
#include "nn/values/value_paths.h"

namespace satformer {
namespace {

at::Tensor even_mix(const at::Tensor& v1_BTHD, const at::Tensor& v_BTHD) { return (v1_BTHD + v_BTHD) * 0.5; }

// What the three share: layer 0's values, and where the path acts.
class V1Values : public ValuePath {
 public:
  explicit V1Values(const ModelConfig& config) : sources_(config) {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      active_.push_back(config.value_path_active(layer));
    }
  }
  at::Tensor mix(std::int64_t layer, const at::Tensor&, const at::Tensor& v_BTHD, ValueState& state,
                 const ValueContext& context) const override {
    sources_.offer(layer, v_BTHD, state);
    const at::Tensor& v1_BTHD = state.carried[0];
    const at::Tensor mixed = active(layer) ? mix_active(v1_BTHD, v_BTHD) : v_BTHD;
    if (!context.observer) return mixed;
    const at::Tensor edited = context.observer->values(layer, v_BTHD.defined() ? v_BTHD : mixed, mixed);
    if (!v_BTHD.defined() && context.cache && !edited.is_same(mixed)) {
      fail(ExitCode::config, "the values of layer ", layer,
           " cannot be replaced while decoding: it shares layer 0's in the cache");
    }
    return edited;
  }

 protected:
  virtual at::Tensor mix_active(const at::Tensor& v1_BTHD, const at::Tensor& v_BTHD) const = 0;
  bool active(std::int64_t layer) const { return active_[static_cast<std::size_t>(layer)]; }

 private:
  ValueSources sources_;
  std::vector<bool> active_;
};

class FixedValues : public V1Values {
 public:
  using V1Values::V1Values;

 protected:
  at::Tensor mix_active(const at::Tensor& v1_BTHD, const at::Tensor& v_BTHD) const override {
    return even_mix(v1_BTHD, v_BTHD);
  }
};

class SvFormerValues : public V1Values {
 public:
  using V1Values::V1Values;

 protected:
  at::Tensor mix_active(const at::Tensor& v1_BTHD, const at::Tensor&) const override { return v1_BTHD; }
};

class NeutrenoValues : public V1Values {
 public:
  explicit NeutrenoValues(const ModelConfig& config)
      : V1Values(config), lambda_(config.neutreno_lambda), fixed_mix_(config.neutreno_values == "fixed") {}
  at::Tensor mix(std::int64_t layer, const at::Tensor& input_BTC, const at::Tensor& v_BTHD, ValueState& state,
                 const ValueContext& context) const override {
    const at::Tensor mixed = V1Values::mix(layer, input_BTC, v_BTHD, state, context);
    state.local = {mixed};
    return mixed;
  }
  at::Tensor add_to_output(std::int64_t layer, const at::Tensor&, const at::Tensor& out_BTHD, ValueState& state,
                           const ValueContext&) const override {
    const at::Tensor mixed = state.local[0];
    state.local.clear();
    return active(layer) ? add_over_groups(out_BTHD, (state.carried[0] - mixed) * lambda_) : out_BTHD;
  }

 protected:
  at::Tensor mix_active(const at::Tensor& v1_BTHD, const at::Tensor& v_BTHD) const override {
    return fixed_mix_ ? even_mix(v1_BTHD, v_BTHD) : v_BTHD;
  }

 private:
  double lambda_;
  bool fixed_mix_;
};

}  // namespace

std::unique_ptr<ValuePath> make_fixed_values(const ModelConfig& config) {
  return std::make_unique<FixedValues>(config);
}
std::unique_ptr<ValuePath> make_svformer_values(const ModelConfig& config) {
  return std::make_unique<SvFormerValues>(config);
}
std::unique_ptr<ValuePath> make_neutreno_values(const ModelConfig& config) {
  return std::make_unique<NeutrenoValues>(config);
}

}  // namespace satformer
