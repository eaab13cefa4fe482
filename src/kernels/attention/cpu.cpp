#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
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

constexpr std::int64_t shortest = 128;  // queries that are worth the tiles

// Queries and keys of a tile. The products of bfloat16 are so fast that what is done once a product counts: larger
// ones.
template <class T>
struct Tiles {
  static constexpr std::int64_t query = 64, key = 128;              // forward
  static constexpr std::int64_t grad_queries = 64, grad_keys = 64;  // backward
};
template <>
struct Tiles<rows::bf16> {
  static constexpr std::int64_t query = 128, key = 256;
  static constexpr std::int64_t grad_queries = 128, grad_keys = 64;
};

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
  // [B, T] where T = S: between which positions the document of a position lies; null: one document a row.
  const std::int64_t *document_begin, *document_end;
  std::int64_t offset() const { return S - T; }
  std::int64_t kv_head(std::int64_t h) const { return h / (H / kv_heads); }
  // Of batch row `b`; `row` is the first position of the tile's rows, queries or keys.
  rows::TileMask mask(std::int64_t b, std::int64_t row, std::int64_t query, std::int64_t queries, std::int64_t key,
                      std::int64_t keys) const {
    const std::int64_t at = b * T + row;
    return {query + offset(),
            key,
            queries,
            keys,
            window,
            causal,
            document_begin ? document_begin + at : nullptr,
            document_end ? document_end + at : nullptr};
  }
  // First and last of the positions that rows [first, first + count) see as far as documents go, of `all` positions.
  std::pair<std::int64_t, std::int64_t> documents(std::int64_t b, std::int64_t first, std::int64_t count,
                                                  std::int64_t all) const {
    if (!document_begin) return {0, all};
    return {document_begin[b * T + first], document_end[b * T + first + count - 1]};
  }
};

template <class T, class Table>
class Forward {
  static constexpr std::int64_t query_tile = Tiles<T>::query, key_tile = Tiles<T>::key;

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
    auto [begin, end] = s_.documents(b, first, count, s_.S);
    if (s_.window > 0) begin = std::max(begin, first + s_.offset() - s_.window + 1);
    if (s_.causal) end = std::min(end, last + 1);
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
                            s_.mask(b, first, first, count, key, std::min(key_tile, s_.S - key))},
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
  static constexpr std::int64_t grad_queries = Tiles<T>::grad_queries, grad_keys = Tiles<T>::grad_keys;

 public:
  Backward(const Shape& shape, const Table& table, at::ScalarType type)
      : s_(shape),
        table_(table),
        padded_(tiles_of(s_.T, grad_queries) * grad_queries),
        q_columns_(scratch(padded_ * s_.D, type, true)),
        q_rows_(scratch(padded_ * s_.D, type, true)),
        dout_columns_(scratch(padded_ * s_.D, type, true)),
        dout_rows_(scratch(padded_ * s_.D, type, true)),
        dq_(scratch(padded_ * s_.D, at::kFloat)),
        delta_(scratch(padded_, at::kFloat)),
        scores_(scratch(grad_keys * grad_queries, at::kFloat)),
        dweights_(scratch(grad_keys * grad_queries, at::kFloat)),
        weights_(scratch(grad_keys * grad_queries, type)),
        dscores_(scratch(grad_keys * grad_queries, type)),
        dscores_rows_(scratch(grad_keys * grad_queries, type)),
        key_columns_(scratch(grad_keys * s_.D, type)),
        dk_(scratch(grad_keys * s_.D, at::kFloat)),
        dv_(scratch(grad_keys * s_.D, at::kFloat)) {}

  struct Gradients {
    Head<T> dq;
    float *dk, *dv;  // [S, D] each
  };
  void run(std::int64_t b, Head<const T> q, Head<const T> k, Head<const T> v, Head<const T> out, Head<const T> dout,
           const float* log_sum, const Gradients& to) {
    pack(q, out, dout);
    for (std::int64_t key = 0; key < s_.S; key += grad_keys) key_rows(b, key, k, v, log_sum, to);
    for (std::int64_t first = 0; first < s_.T; first += grad_queries) {
      table_.flash_store_transposed(
          {in<float>(dq_) + first * s_.D, to.dq.at(first), s_.D, grad_queries, to.dq.stride, s_.scale}, 0,
          std::min(grad_queries, s_.T - first));
    }
  }

 private:
  void pack(Head<const T> q, Head<const T> out, Head<const T> dout) {
    for (std::int64_t first = 0; first < s_.T; first += grad_queries) {
      const std::int64_t count = std::min(grad_queries, s_.T - first), to = first * s_.D;
      table_.flash_pack_columns({q.at(first), satformer::out<T>(q_columns_) + to, s_.D, q.stride, grad_queries}, 0,
                                count);
      table_.flash_pack_rows({q.at(first), satformer::out<T>(q_rows_) + to, s_.D, q.stride, grad_queries}, 0, count);
      table_.flash_pack_columns(
          {dout.at(first), satformer::out<T>(dout_columns_) + to, s_.D, dout.stride, grad_queries}, 0, count);
      table_.flash_pack_rows({dout.at(first), satformer::out<T>(dout_rows_) + to, s_.D, dout.stride, grad_queries}, 0,
                             count);
      table_.flash_delta(
          {out.at(first), dout.at(first), satformer::out<float>(delta_) + first, s_.D, out.stride, dout.stride}, 0,
          count);
    }
    std::fill_n(satformer::out<float>(dq_), padded_ * s_.D, 0.0f);
  }

  void key_rows(std::int64_t b, std::int64_t key, Head<const T> k, Head<const T> v, const float* log_sum,
                const Gradients& to) {
    const std::int64_t count = std::min(grad_keys, s_.S - key), D = s_.D, offset = s_.offset();
    auto [begin, end] = s_.documents(b, key, count, s_.T);
    if (s_.causal) begin = std::max(begin, key - offset);
    if (s_.window > 0) end = std::min(end, key + count - 1 + s_.window - offset);
    T *weights = satformer::out<T>(weights_), *dscores = satformer::out<T>(dscores_),
      *columns = satformer::out<T>(key_columns_);
    auto *scores = satformer::out<float>(scores_), *dweights = satformer::out<float>(dweights_);
    auto *dk = satformer::out<float>(dk_), *dv = satformer::out<float>(dv_);
    if (count < grad_keys) {  // keys that are not there weigh nothing
      for (T* rows : {weights, dscores}) {
        std::fill_n(rows + count * grad_queries, (grad_keys - count) * grad_queries, T{});
      }
      std::fill_n(columns, D * grad_keys, T{});
    }
    table_.flash_transpose({k.at(key), columns, D, k.stride, grad_keys}, 0, count);
    std::fill_n(dk, count * D, 0.0f);
    std::fill_n(dv, count * D, 0.0f);
    for (std::int64_t tile = begin / grad_queries; tile * grad_queries < end; ++tile) {
      const std::int64_t first = tile * grad_queries, at = first * D;
      multiply(Product<T>{count, grad_queries, D, k.at(key), k.stride, in<T>(q_columns_) + at, scores, false});
      multiply(Product<T>{count, grad_queries, D, v.at(key), v.stride, in<T>(dout_columns_) + at, dweights, false});
      table_.flash_grad({scores, dweights, weights, dscores, grad_queries, log_sum + first, in<float>(delta_) + first,
                         s_.scale, s_.mask(b, key, first, std::min(grad_queries, s_.T - first), key, count)},
                        0, count);
      multiply(Product<T>{count, D, grad_queries, weights, grad_queries, in<T>(dout_rows_) + at, dv, true});
      multiply(Product<T>{count, D, grad_queries, dscores, grad_queries, in<T>(q_rows_) + at, dk, true});
      const T* packed = dscores;
      if constexpr (rows::packed_pair<T> != 1) {
        table_.flash_pack_rows({dscores, satformer::out<T>(dscores_rows_), grad_queries, grad_queries, 0}, 0,
                               grad_keys);
        packed = in<T>(dscores_rows_);
      }
      multiply(
          Product<T>{D, grad_queries, grad_keys, columns, grad_keys, packed, satformer::out<float>(dq_) + at, true});
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
  TiledAttentionOp(const Shape& shape, const DocumentBounds& documents) : documents_(documents), s_(shape) {
    s_.document_begin = in<std::int64_t>(documents_.begin_BT);
    s_.document_end = in<std::int64_t>(documents_.end_BT);
  }

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
            head_gradient.run(b, head<T>(q, b, h), head<T>(k, b, kv), head<T>(v, b, kv), head<T>(out, b, h),
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
  DocumentBounds documents_;
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

std::optional<DocumentBounds> document_bounds(const at::Tensor& document_BT) {
  const at::Tensor documents = document_BT.contiguous();
  const std::int64_t B = documents.size(0), T = documents.size(1);
  DocumentBounds bounds{at::empty_like(documents), at::empty_like(documents)};
  for (std::int64_t b = 0; b < B; ++b) {
    const auto* document = in<std::int64_t>(documents) + b * T;
    auto *begin = out<std::int64_t>(bounds.begin_BT) + b * T, *end = out<std::int64_t>(bounds.end_BT) + b * T;
    for (std::int64_t t = 0; t < T; ++t) {
      if (t > 0 && document[t] < document[t - 1]) return std::nullopt;
      begin[t] = t > 0 && document[t] == document[t - 1] ? begin[t - 1] : t;
    }
    for (std::int64_t t = T; t-- > 0;) end[t] = t + 1 < T && document[t] == document[t + 1] ? end[t + 1] : t + 1;
  }
  return bounds;
}

at::Tensor tiled_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal,
                           std::optional<std::int64_t> window, const DocumentBounds& documents) {
  const Shape shape{q.size(0),
                    q.size(1),
                    k.size(1),
                    q.size(2),
                    k.size(2),
                    q.size(3),
                    window.value_or(0),
                    causal,
                    static_cast<float>(1.0 / std::sqrt(static_cast<double>(q.size(3)))),
                    nullptr,
                    nullptr};
  const auto ready = [](const at::Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); };
  return apply_op(std::make_shared<TiledAttentionOp>(shape, documents), {ready(q), ready(k), ready(v)})[0];
}

}  // namespace satformer::cpu
