#include <ATen/native/CPUBlas.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "base/error.h"
#include "kernels/attention/tiled.h"
#include "kernels/cpu_rows.h"

namespace satformer::cpu {
namespace {

constexpr std::int64_t query_tile = 64, key_tile = 128;  // forward
constexpr std::int64_t grad_tile = 64;                   // backward: queries and keys
constexpr std::int64_t shortest = 128;                   // queries that are worth the tiles

std::int64_t tiles_of(std::int64_t count, std::int64_t tile) { return (count + tile - 1) / tile; }

// c [m, n] (+)= a [m, k] b [k, n], b in the packed layout of rows::FlashPack, n columns wide.
template <class T>
struct Product {
  std::int64_t m, n, k;
  const T* a;
  std::int64_t a_stride;
  const T* b;
  float* c;
  bool add;
};
void multiply(const Product<float>& p) {
  at::native::cpublas::brgemm(p.m, p.n, p.k, p.a_stride, p.n, p.n, p.add, p.a, p.b, p.c, false);
}
void multiply(const Product<rows::bf16>& p) {
  at::native::cpublas::brgemm(p.m, p.n, p.k, p.a_stride, p.n, p.n, p.add, reinterpret_cast<const at::BFloat16*>(p.a),
                              reinterpret_cast<const at::BFloat16*>(p.b), p.c, true);
}
// What a thread's products set up in the CPU is given back when it has done its part.
struct ProductScope {
  ~ProductScope() { at::native::cpublas::brgemm_release(true); }
};

template <class T>
bool products_exist() {
  static const bool exist = [] {
    T a[4] = {}, b[4] = {};
    float c[4];
    try {
      const ProductScope scope;
      multiply(Product<T>{2, 2, 2, a, 2, b, c, false});
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }();
  return exist;
}

// One batch row's head of a [B, T, H, D] tensor.
template <class T>
struct Head {
  T* data;
  std::int64_t stride;  // from one position to the next
  T* at(std::int64_t position) const { return data + position * stride; }
};
template <class T, class P>
Head<T> head_of(P* data, const at::Tensor& t, std::int64_t b, std::int64_t h) {
  return {static_cast<T*>(data) + b * t.stride(0) + h * t.stride(2), t.stride(1)};
}
template <class T>
Head<const T> head(const at::Tensor& t, std::int64_t b, std::int64_t h) {
  return head_of<const T>(t.const_data_ptr(), t, b, h);
}
template <class T>
Head<T> head_out(const at::Tensor& t, std::int64_t b, std::int64_t h) {
  return head_of<T>(t.mutable_data_ptr(), t, b, h);
}

at::Tensor scratch(std::int64_t count, at::ScalarType type, bool zero = false) {
  const auto options = at::TensorOptions().dtype(type);
  return zero ? at::zeros({count}, options) : at::empty({count}, options);
}

struct Shape {
  std::int64_t B, T, S, H, kv_heads, D, window;
  bool causal;
  float scale;
  std::int64_t offset() const { return S - T; }
  std::int64_t kv_head(std::int64_t h) const { return h / (H / kv_heads); }
  rows::TileMask mask(std::int64_t query, std::int64_t queries, std::int64_t key, std::int64_t keys) const {
    return {query + offset(), key, queries, keys, window, causal};
  }
};

template <class T, class Table>
class Forward {
 public:
  Forward(const Shape& shape, const Table& table, at::ScalarType type) : s_(shape), table_(table), type_(type) {}

  void run(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& out,
           const at::Tensor& log_sum) {
    pack(k, v);
    const std::int64_t tiles = tiles_of(s_.T, query_tile);
    parallel_ranges(s_.B * s_.H * tiles, query_tile * s_.S * 4, [&](std::int64_t begin, std::int64_t end) {
      const ProductScope scope;
      Buffers buffers(s_.D, type_);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / (s_.H * tiles), h = i / tiles % s_.H, n = i % tiles;
        // Late tiles see more keys than early ones: taken in turn, so that the parts of threads are alike.
        const std::int64_t tile = n % 2 == 0 ? n / 2 : tiles - 1 - n / 2;
        query_rows(b, h, tile * query_tile, head<T>(q, b, h), head_out<T>(out, b, h),
                   log_sum.mutable_data_ptr<float>() + (b * s_.H + h) * s_.T, buffers);
      }
    });
  }

 private:
  struct Buffers {
    Buffers(std::int64_t D, at::ScalarType type)
        : scores(scratch(query_tile * key_tile, at::kFloat)),
          weights(scratch(query_tile * key_tile, type)),
          accumulated(scratch(query_tile * D, at::kFloat)),
          maximum(scratch(query_tile, at::kFloat)),
          sum(scratch(query_tile, at::kFloat)) {}
    at::Tensor scores, weights, accumulated, maximum, sum;
  };

  void pack(const at::Tensor& k, const at::Tensor& v) {
    const std::int64_t tiles = tiles_of(s_.S, key_tile), units = s_.B * s_.kv_heads;
    unit_size_ = tiles * key_tile * s_.D;
    keys_ = scratch(units * unit_size_, type_, true);
    values_ = scratch(units * unit_size_, type_, true);
    parallel_ranges(units * tiles, key_tile * s_.D * 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t b = i / (s_.kv_heads * tiles), h = i / tiles % s_.kv_heads, first = i % tiles * key_tile;
        const std::int64_t count = std::min(key_tile, s_.S - first), to = i * key_tile * s_.D;
        const Head<const T> key = head<T>(k, b, h), value = head<T>(v, b, h);
        table_.flash_pack_columns({key.at(first), satformer::out<T>(keys_) + to, s_.D, key.stride, key_tile}, 0,
                                  count);
        table_.flash_pack_rows({value.at(first), satformer::out<T>(values_) + to, s_.D, value.stride, key_tile}, 0,
                               count);
      }
    });
  }

  void query_rows(std::int64_t b, std::int64_t h, std::int64_t first, Head<const T> q, Head<T> out, float* log_sum,
                  Buffers& buffers) {
    const std::int64_t count = std::min(query_tile, s_.T - first), last = first + count - 1 + s_.offset();
    const std::int64_t unit = (b * s_.kv_heads + s_.kv_head(h)) * unit_size_;
    const std::int64_t begin = s_.window > 0 ? std::max<std::int64_t>(0, first + s_.offset() - s_.window + 1) : 0;
    const std::int64_t end = s_.causal ? std::min(s_.S, last + 1) : s_.S;
    auto* scores = satformer::out<float>(buffers.scores);
    auto *sum = satformer::out<float>(buffers.sum), *maximum = satformer::out<float>(buffers.maximum);
    auto* accumulated = satformer::out<float>(buffers.accumulated);
    T* weights = satformer::out<T>(buffers.weights);
    std::fill_n(accumulated, count * s_.D, 0.0f);
    std::fill_n(sum, count, 0.0f);
    std::fill_n(maximum, count, -std::numeric_limits<float>::infinity());
    for (std::int64_t tile = begin / key_tile; tile * key_tile < end; ++tile) {
      const std::int64_t key = tile * key_tile, at = unit + key * s_.D;
      multiply(Product<T>{count, key_tile, s_.D, q.at(first), q.stride, in<T>(keys_) + at, scores, false});
      table_.flash_softmax({scores, weights, key_tile, maximum, sum, accumulated, s_.D, s_.scale,
                            s_.mask(first, count, key, std::min(key_tile, s_.S - key))},
                           0, count);
      multiply(Product<T>{count, s_.D, key_tile, weights, key_tile, in<T>(values_) + at, accumulated, true});
    }
    table_.flash_finish({maximum, sum, accumulated, out.at(first), log_sum + first, s_.D, out.stride}, 0, count);
  }

  const Shape& s_;
  const Table& table_;
  at::ScalarType type_;
  std::int64_t unit_size_ = 0;
  at::Tensor keys_, values_;
};

// One head of one batch row at a time: its queries' gradients gather over the tiles of keys.
template <class T, class Table>
class Backward {
 public:
  Backward(const Shape& shape, const Table& table, at::ScalarType type)
      : s_(shape),
        table_(table),
        padded_(tiles_of(s_.T, grad_tile) * grad_tile),
        q_columns_(scratch(padded_ * s_.D, type, true)),
        q_rows_(scratch(padded_ * s_.D, type, true)),
        dout_columns_(scratch(padded_ * s_.D, type, true)),
        dout_rows_(scratch(padded_ * s_.D, type, true)),
        dq_(scratch(padded_ * s_.D, at::kFloat)),
        delta_(scratch(padded_, at::kFloat)),
        scores_(scratch(grad_tile * grad_tile, at::kFloat)),
        dweights_(scratch(grad_tile * grad_tile, at::kFloat)),
        weights_(scratch(grad_tile * grad_tile, type)),
        dscores_(scratch(grad_tile * grad_tile, type)),
        dscores_rows_(scratch(grad_tile * grad_tile, type)),
        key_columns_(scratch(grad_tile * s_.D, type)),
        dk_(scratch(grad_tile * s_.D, at::kFloat)),
        dv_(scratch(grad_tile * s_.D, at::kFloat)) {}

  struct Gradients {
    Head<T> dq;
    float *dk, *dv;  // [S, D] each
  };
  void run(Head<const T> q, Head<const T> k, Head<const T> v, Head<const T> out, Head<const T> dout,
           const float* log_sum, const Gradients& to) {
    pack(q, out, dout);
    for (std::int64_t key = 0; key < s_.S; key += grad_tile) key_rows(key, k, v, log_sum, to);
    for (std::int64_t first = 0; first < s_.T; first += grad_tile) {
      table_.flash_store_transposed(
          {in<float>(dq_) + first * s_.D, to.dq.at(first), s_.D, grad_tile, to.dq.stride, s_.scale}, 0,
          std::min(grad_tile, s_.T - first));
    }
  }

 private:
  void pack(Head<const T> q, Head<const T> out, Head<const T> dout) {
    for (std::int64_t first = 0; first < s_.T; first += grad_tile) {
      const std::int64_t count = std::min(grad_tile, s_.T - first), to = first * s_.D;
      table_.flash_pack_columns({q.at(first), satformer::out<T>(q_columns_) + to, s_.D, q.stride, grad_tile}, 0,
                                count);
      table_.flash_pack_rows({q.at(first), satformer::out<T>(q_rows_) + to, s_.D, q.stride, grad_tile}, 0, count);
      table_.flash_pack_columns({dout.at(first), satformer::out<T>(dout_columns_) + to, s_.D, dout.stride, grad_tile},
                                0, count);
      table_.flash_pack_rows({dout.at(first), satformer::out<T>(dout_rows_) + to, s_.D, dout.stride, grad_tile}, 0,
                             count);
      table_.flash_delta(
          {out.at(first), dout.at(first), satformer::out<float>(delta_) + first, s_.D, out.stride, dout.stride}, 0,
          count);
    }
    std::fill_n(satformer::out<float>(dq_), padded_ * s_.D, 0.0f);
  }

  void key_rows(std::int64_t key, Head<const T> k, Head<const T> v, const float* log_sum, const Gradients& to) {
    const std::int64_t count = std::min(grad_tile, s_.S - key), D = s_.D, offset = s_.offset();
    const std::int64_t begin = s_.causal ? std::max<std::int64_t>(0, key - offset) : 0;
    const std::int64_t end = s_.window > 0 ? std::min(s_.T, key + count - 1 + s_.window - offset) : s_.T;
    T *weights = satformer::out<T>(weights_), *dscores = satformer::out<T>(dscores_),
      *columns = satformer::out<T>(key_columns_);
    auto *scores = satformer::out<float>(scores_), *dweights = satformer::out<float>(dweights_);
    auto *dk = satformer::out<float>(dk_), *dv = satformer::out<float>(dv_);
    if (count < grad_tile) {  // keys that are not there weigh nothing
      for (T* rows : {weights, dscores}) std::fill_n(rows + count * grad_tile, (grad_tile - count) * grad_tile, T{});
      std::fill_n(columns, D * grad_tile, T{});
    }
    table_.flash_transpose({k.at(key), columns, D, k.stride, grad_tile}, 0, count);
    std::fill_n(dk, count * D, 0.0f);
    std::fill_n(dv, count * D, 0.0f);
    for (std::int64_t tile = begin / grad_tile; tile * grad_tile < end; ++tile) {
      const std::int64_t first = tile * grad_tile, at = first * D;
      multiply(Product<T>{count, grad_tile, D, k.at(key), k.stride, in<T>(q_columns_) + at, scores, false});
      multiply(Product<T>{count, grad_tile, D, v.at(key), v.stride, in<T>(dout_columns_) + at, dweights, false});
      table_.flash_grad({scores, dweights, weights, dscores, grad_tile, log_sum + first, in<float>(delta_) + first,
                         s_.scale, s_.mask(first, std::min(grad_tile, s_.T - first), key, count)},
                        0, count);
      multiply(Product<T>{count, D, grad_tile, weights, grad_tile, in<T>(dout_rows_) + at, dv, true});
      multiply(Product<T>{count, D, grad_tile, dscores, grad_tile, in<T>(q_rows_) + at, dk, true});
      const T* packed = dscores;
      if constexpr (rows::packed_pair<T> != 1) {
        table_.flash_pack_rows({dscores, satformer::out<T>(dscores_rows_), grad_tile, grad_tile, 0}, 0, grad_tile);
        packed = in<T>(dscores_rows_);
      }
      multiply(
          Product<T>{D, grad_tile, grad_tile, columns, grad_tile, packed, satformer::out<float>(dq_) + at, true});
    }
    std::copy_n(dk, count * D, to.dk + key * D);
    std::copy_n(dv, count * D, to.dv + key * D);
  }

  const Shape& s_;
  const Table& table_;
  std::int64_t padded_;
  at::Tensor q_columns_, q_rows_, dout_columns_, dout_rows_, dq_, delta_;
  at::Tensor scores_, dweights_, weights_, dscores_, dscores_rows_, key_columns_, dk_, dv_;
};

class TiledAttentionOp : public CpuOp {
 public:
  explicit TiledAttentionOp(const Shape& shape) : s_(shape) {}

  TensorList forward(const TensorList& inputs, TensorList& saved) override {
    const at::Tensor &q = inputs[0], &k = inputs[1], &v = inputs[2];
    const at::Tensor out = at::empty(q.sizes(), q.options());
    const at::Tensor log_sum = scratch(s_.B * s_.H * s_.T, at::kFloat);
    with_element(isa(), q.scalar_type(), [&](const auto& table, auto element) {
      Forward<decltype(element), std::decay_t<decltype(table)>>(s_, table, q.scalar_type())
          .run(q, k, v, out, log_sum);
    });
    saved = {q, k, v, out, log_sum};
    return {out};
  }

  TensorList backward(const TensorList& grads, const TensorList& saved, const std::vector<bool>&) override {
    if (!grads[0].defined()) return TensorList(3);
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &out = saved[3], &log_sum = saved[4];
    const at::Tensor dout = grads[0].stride(-1) == 1 ? grads[0] : grads[0].contiguous();
    const at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
                     dv = at::empty(v.sizes(), v.options());
    with_element(isa(), q.scalar_type(), [&](const auto& table, auto element) {
      using T = decltype(element);
      const std::int64_t groups = s_.H / s_.kv_heads;
      parallel_ranges(s_.B * s_.kv_heads, s_.T * s_.S, [&](std::int64_t begin, std::int64_t end) {
        const ProductScope scope;
        Backward<T, std::decay_t<decltype(table)>> head_gradient(s_, table, q.scalar_type());
        const at::Tensor sums = scratch(4 * s_.S * s_.D, at::kFloat);
        float* sum = satformer::out<float>(sums);
        const std::int64_t size = s_.S * s_.D;
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t b = i / s_.kv_heads, kv = i % s_.kv_heads;
          for (std::int64_t g = 0; g < groups; ++g) {
            const std::int64_t h = kv * groups + g;
            float* own = sum + (g == 0 ? 0 : 2 * size);
            head_gradient.run(head<T>(q, b, h), head<T>(k, b, kv), head<T>(v, b, kv), head<T>(out, b, h),
                              head<T>(dout, b, h), log_sum.const_data_ptr<float>() + (b * s_.H + h) * s_.T,
                              {head_out<T>(dq, b, h), own, own + size});
            for (std::int64_t e = 0; g > 0 && e < 2 * size; ++e) sum[e] += own[e];
          }
          const Head<T> key = head_out<T>(dk, b, kv), value = head_out<T>(dv, b, kv);
          table.flash_store({sum, key.data, s_.D, 0, key.stride, s_.scale}, 0, s_.S);
          table.flash_store({sum + size, value.data, s_.D, 0, value.stride, 1.0f}, 0, s_.S);
        }
      });
    });
    return {dq, dk, dv};
  }

 private:
  Shape s_;
};

enum class Choice { automatic, never, always };
Choice choice() {
  static const Choice chosen = [] {
    const char* value = std::getenv("SATFORMER_CPU_ATTENTION");
    const std::string name = value ? value : "";
    if (name.empty() || name == "auto") return Choice::automatic;
    if (name == "sdpa") return Choice::never;
    if (name == "tiled") return Choice::always;
    fail(ExitCode::usage, "SATFORMER_CPU_ATTENTION = '", name, "' is not one of: auto, sdpa, tiled");
  }();
  return chosen;
}

}  // namespace

bool tiled_attention_fits(const at::Tensor& q, const at::Tensor& k) {
  if (choice() == Choice::never || !fused_cpu_ok(q) || q.scalar_type() != k.scalar_type()) return false;
  if (choice() == Choice::automatic && q.size(1) < shortest) return false;
  if (q.size(3) % 2 != 0 || q.size(1) == 0 || q.size(0) == 0) return false;
  return q.scalar_type() == at::kBFloat16 ? products_exist<rows::bf16>() : products_exist<float>();
}

at::Tensor tiled_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                           std::optional<std::int64_t> window) {
  const Shape shape{
      q.size(0),          q.size(1), k.size(1),
      q.size(2),          k.size(2), q.size(3),
      window.value_or(0), causal,    static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.size(3))))};
  const auto ready = [](const at::Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); };
  return apply_op(std::make_shared<TiledAttentionOp>(shape), {ready(q), ready(k), ready(v)})[0];
}

}  // namespace satformer::cpu
