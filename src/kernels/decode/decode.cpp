#include "kernels/decode/decode.h"

#include <algorithm>
#include <array>
#include <deque>

#include "kernels/attention/few_queries.h"
#include "kernels/linear/few_rows.h"
#include "kernels/stages.h"

namespace satformer {
namespace {

template <class T>
using Products = std::vector<cpu::FewRowsProduct<T>>;

// Adds the stages of a pass. Holds what they work on until they have run.
template <class T>
class Decode {
 public:
  Decode(const DecodePass& pass, const rows::RowTable<T>& table)
      : pass_(pass),
        table_(table),
        B_(pass.x_BTC.size(0)),
        T_(pass.x_BTC.size(1)),
        N_(B_ * T_),
        C_(pass.x_BTC.size(2)),
        kv_width_(pass.kv_heads * pass.head_dim),
        width_(pass.heads * pass.head_dim),
        slots_(dense(pass.slots_BT, at::kLong)),
        positions_(dense(pass.positions_BT, at::kLong)) {
    std::int64_t hidden = 0;
    bool packed = false, dense_weights = false;
    for (const DecodeLayer& layer : pass.layers) {
      hidden = std::max(hidden, cpu::outputs_of(layer.gate));
      const LinearWeight all[] = {layer.q, layer.k, layer.v, layer.o, layer.gate, layer.up, layer.down};
      packed = packed || cpu::any_packed(all);
      dense_weights = dense_weights || layer.mix.gated() || cpu::any_dense(all);
    }
    const auto input = [&](std::int64_t columns) { return cpu::FewRowsInput(N_, columns, dense_weights, packed); };
    for (at::Tensor& stream : streams_) stream = buffer(C_);
    normed_ = buffer(C_);
    normed_input_.emplace(input(C_));
    q_ = buffer(width_);
    for (at::Tensor* t : {&k_, &v_, &first_v_}) *t = buffer(kv_width_);
    logits_ = buffer(pass.kv_heads);
    gate_values_ = at::empty({2, N_, pass.kv_heads}, at::kFloat);
    heads_ = buffer(width_);
    heads_input_.emplace(input(width_));
    out_ = buffer(C_);
    gate_ = buffer(hidden);
    up_ = buffer(hidden);
    active_ = buffer(hidden);
  }

  at::Tensor run() {
    const T* x = in<T>(pass_.x_BTC);
    const T* pending = nullptr;  // the last sublayer's output, not yet added to x
    int next = 0;                // of the two streams
    const auto read = [&](const at::Tensor& weight) {
      T* sum = pending ? out<T>(streams_[static_cast<std::size_t>(next)]) : nullptr;
      add_norm(pending ? pending : x, pending ? x : nullptr, sum, weight, &*normed_input_);
      if (!pending) return;
      x = sum;
      next = 1 - next;
    };
    for (std::size_t l = 0; l < pass_.layers.size(); ++l) {
      const DecodeLayer& layer = pass_.layers[l];
      read(layer.attention_norm);
      add_attention(layer, l == 0);
      pending = out<T>(out_);
      read(layer.mlp_norm);
      add_mlp(layer);
    }
    // The last sum is rounded before its norm reads it.
    T* sum = out<T>(streams_[static_cast<std::size_t>(next)]);
    stages_.add(N_, C_, [this, sum, x](std::int64_t begin, std::int64_t end) {
      const T* added = in<T>(out_);
      for (std::int64_t i = begin * C_; i < end * C_; ++i)
        rows::store(sum + i, rows::load(x[i]) + rows::load(added[i]));
    });
    add_norm(sum, nullptr, nullptr, pass_.final_norm, nullptr);
    stages_.run();
    return normed_.view({B_, T_, C_});
  }

 private:
  at::Tensor buffer(std::int64_t columns) const { return at::empty({N_, columns}, pass_.x_BTC.options()); }
  const float* fp32(const at::Tensor& weight) {
    if (!weight.defined()) return nullptr;
    kept_.push_back(dense_fp32(weight));
    return in<float>(kept_.back());
  }

  // norm(x), or sum = x + residual and norm(sum), into normed_ and `input`.
  void add_norm(const T* x, const T* residual, T* sum, const at::Tensor& weight, const cpu::FewRowsInput* input) {
    const rows::RmsNorm<T> args{.x = x,
                                .residual = residual,
                                .weight = fp32(weight),
                                .y = out<T>(normed_),
                                .sum = sum,
                                .columns = C_,
                                .eps = static_cast<float>(pass_.norm_eps)};
    stages_.add(N_, C_, [this, args, input](std::int64_t begin, std::int64_t end) {
      table_.rms_norm(args, begin, end);
      if (input) cpu::fill_rows(table_, args.y, *input, begin, end);
    });
  }

  void add_products(Products<T> products, std::int64_t columns) {
    std::int64_t blocks = 0;
    for (const auto& product : products) blocks += product.blocks();
    const Products<T>& kept = products_.emplace_back(std::move(products));
    stages_.add(
        blocks, N_ * columns * rows::linear_block,
        [&kept](std::int64_t begin, std::int64_t end) { cpu::run_products(kept, begin, end); },
        [&kept](std::int64_t first) { return cpu::weights_from(kept, first); });
  }

  void add_attention(const DecodeLayer& layer, bool first) {
    T* v = out<T>(first ? first_v_ : v_);
    Products<T> products;
    products.emplace_back(table_, layer.q, *normed_input_, out<T>(q_));
    products.emplace_back(table_, layer.k, *normed_input_, out<T>(k_));
    products.emplace_back(table_, layer.v, *normed_input_, v);
    if (layer.mix.gated()) products.emplace_back(table_, layer.mix.gate, *normed_input_, out<T>(logits_));
    add_products(std::move(products), C_);
    add_cache_entries(layer, v);
    add_scores(layer);
    products.clear();
    products.emplace_back(table_, layer.o, *heads_input_, out<T>(out_));
    add_products(std::move(products), width_);
  }

  // Mixes the values of each token into the cache, rotates its key into the cache and its query in place.
  void add_cache_entries(const DecodeLayer& layer, const T* v) {
    const TokenMix& mix = layer.mix;
    const bool gated = mix.gated();
    const rows::ValueGate<T> gate{.v = v,
                                  .v1 = in<T>(first_v_),
                                  .logits = in<float>(gate_values_),
                                  .out = nullptr,
                                  .dy = nullptr,
                                  .dv1 = nullptr,
                                  .dlogits = nullptr,
                                  .alpha = nullptr,
                                  .heads = pass_.kv_heads,
                                  .head_dim = pass_.head_dim,
                                  .gate = static_cast<int>(mix.activation)};
    const auto rope = [&](const at::Tensor& x, const at::Tensor& weight, std::int64_t heads) {
      return rows::QkNormRope<T>{.x = in<T>(x),
                                 .dy = nullptr,
                                 .weight = fp32(weight),
                                 .cos = in<float>(pass_.rope.cos_PD),
                                 .sin = in<float>(pass_.rope.sin_PD),
                                 .positions = in<std::int64_t>(positions_),
                                 .out = nullptr,
                                 .dweight = nullptr,
                                 .tokens_per_row = T_,
                                 .heads = heads,
                                 .head_dim = pass_.head_dim,
                                 .eps = static_cast<float>(pass_.qk_norm_eps)};
    };
    const rows::QkNormRope<T> query = rope(q_, layer.q_norm, pass_.heads),
                              key = rope(k_, layer.k_norm, pass_.kv_heads);
    T *keys = out<T>(layer.keys), *values = out<T>(layer.values);
    const std::int64_t key_row = layer.keys.stride(0), key_slot = layer.keys.stride(1),
                       value_row = layer.values.stride(0), value_slot = layer.values.stride(1);
    const auto body = [=, this, lambdas = mix.lambdas](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t slot = in<std::int64_t>(slots_)[n];
        // Kernels index their output by token too.
        T* value = values + n / T_ * value_row + slot * value_slot;
        if (gated) {
          float* token = out<float>(gate_values_) + n * pass_.kv_heads;
          const T* logits = in<T>(logits_) + n * pass_.kv_heads;
          for (std::int64_t h = 0; h < pass_.kv_heads; ++h) token[h] = rows::load(logits[h]);
          auto args = gate;
          args.v += n * kv_width_;
          args.v1 += n * kv_width_;
          args.logits = token;
          args.alpha = token + N_ * pass_.kv_heads;
          args.out = value;
          table_.value_gate(args, 0, 1);
        } else if (lambdas) {
          const rows::StaticMix<T> args{.v = v + n * kv_width_,
                                        .v1 = in<T>(first_v_) + n * kv_width_,
                                        .out = value,
                                        .dy = nullptr,
                                        .dv = nullptr,
                                        .dv1 = nullptr,
                                        .dots = nullptr,
                                        .lambda1 = lambdas->first,
                                        .lambda2 = lambdas->second};
          table_.static_mix(args, 0, kv_width_);
        } else {
          std::copy_n(v + n * kv_width_, kv_width_, value);
        }
        auto args = key;
        args.x += n * kv_width_;
        args.positions += n;
        args.out = keys + n / T_ * key_row + slot * key_slot;
        table_.qk_norm_rope(args, 0, 1);
        args = query;
        args.out = const_cast<T*>(args.x);
        table_.qk_norm_rope(args, n, n + 1);
      }
    };
    stages_.add(N_, 4 * (width_ + kv_width_), body);
  }

  void add_scores(const DecodeLayer& layer) {
    const std::int64_t S = layer.keys.size(1), D = pass_.head_dim, groups = pass_.heads / pass_.kv_heads;
    const at::Tensor& valid = pass_.key_valid_BS;
    const rows::FewQueries<T> args{.q = in<T>(q_),
                                   .k = in<T>(layer.keys),
                                   .v = in<T>(layer.values),
                                   .out = out<T>(heads_),
                                   .own_slot = in<std::int64_t>(slots_),
                                   .valid = in<bool>(valid),
                                   .scratch = nullptr,
                                   .key_row = layer.keys.stride(0),
                                   .key_slot = layer.keys.stride(1),
                                   .value_row = layer.values.stride(0),
                                   .value_slot = layer.values.stride(1),
                                   .valid_stride = valid.defined() ? valid.stride(0) : 0,
                                   .queries = T_,
                                   .heads = pass_.heads,
                                   .kv_heads = pass_.kv_heads,
                                   .head_dim = D,
                                   .slots = S,
                                   .window = pass_.window.value_or(0)};
    stages_.add(B_ * pass_.kv_heads, 2 * T_ * groups * S * D, [this, args](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<float> scratch;
      scratch.resize(static_cast<std::size_t>(args.slots + args.head_dim));
      auto own = args;
      own.scratch = scratch.data();
      table_.few_queries(own, begin, end);
    });
    stages_.add(N_, width_, [this](std::int64_t begin, std::int64_t end) {
      cpu::fill_rows(table_, in<T>(heads_), *heads_input_, begin, end);
    });
  }

  void add_mlp(const DecodeLayer& layer) {
    const std::int64_t F = cpu::outputs_of(layer.gate);
    inputs_.push_back(cpu::FewRowsInput(N_, F, {&layer.down, 1}));
    const cpu::FewRowsInput& active_input = inputs_.back();
    Products<T> products;
    products.emplace_back(table_, layer.gate, *normed_input_, out<T>(gate_));
    products.emplace_back(table_, layer.up, *normed_input_, out<T>(up_));
    add_products(std::move(products), C_);
    const rows::Swiglu<T> swiglu{in<T>(gate_), in<T>(up_), out<T>(active_)};
    stages_.add(N_, 4 * F, [this, swiglu, F, &active_input](std::int64_t begin, std::int64_t end) {
      table_.swiglu(swiglu, begin * F, end * F);
      cpu::fill_rows(table_, in<T>(active_), active_input, begin, end);
    });
    products.clear();
    products.emplace_back(table_, layer.down, active_input, out<T>(out_));
    add_products(std::move(products), F);
  }

  const DecodePass& pass_;
  const rows::RowTable<T>& table_;
  const std::int64_t B_, T_, N_, C_, kv_width_, width_;
  const at::Tensor slots_, positions_;
  std::array<at::Tensor, 2> streams_;  // [N, C]: a sum is not written where it is read from
  at::Tensor normed_, q_, k_, v_, first_v_, logits_, heads_, out_, gate_, up_, active_;
  at::Tensor gate_values_;  // fp32 [2, N, Hkv]: logits and gates
  std::optional<cpu::FewRowsInput> normed_input_, heads_input_;
  std::deque<cpu::FewRowsInput> inputs_;
  std::deque<Products<T>> products_;
  std::vector<at::Tensor> kept_;
  Stages stages_;
};

}  // namespace

bool decode_fits(const DecodePass& pass) {
  const at::ScalarType dtype = pass.x_BTC.scalar_type();
  if (!few_rows(pass.x_BTC) || !pass.x_BTC.is_contiguous()) return false;
  const auto alike = [&](const at::Tensor& t) { return !t.defined() || t.scalar_type() == dtype; };
  const auto heads_in_order = [](const at::Tensor& t) { return t.stride(3) == 1 && t.stride(2) == t.size(3); };
  const auto usable = [&](const LinearWeight& w) {
    return (w.packed || (alike(w.dense) && w.dense.is_contiguous())) && alike(w.bias) &&
           (!w.bias.defined() || w.bias.is_contiguous());
  };
  for (const DecodeLayer& l : pass.layers) {
    for (const LinearWeight* w : {&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}) {
      if (!usable(*w)) return false;
    }
    if (l.mix.gated() && !usable(l.mix.gate)) return false;
    if (!alike(l.keys) || !alike(l.values) || !heads_in_order(l.keys) || !heads_in_order(l.values)) return false;
  }
  return pass.rope.cos_PD.is_contiguous() && pass.rope.sin_PD.is_contiguous() &&
         (!pass.key_valid_BS.defined() || pass.key_valid_BS.stride(1) == 1);
}

at::Tensor decode(const DecodePass& pass) {
  at::Tensor states;
  cpu::with_element(isa_table(), pass.x_BTC.scalar_type(),
                    [&](const auto& table, auto element) { states = Decode<decltype(element)>(pass, table).run(); });
  return states;
}

}  // namespace satformer
