#include "kernels/linear/packed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "kernels/cpu_rows.h"

namespace satformer {
namespace {

constexpr std::int64_t packed_block = PackedWeight::block, packed_group = PackedWeight::group;
// Scales of a group that are tried: parts of the one that reaches the group's largest value.
constexpr float tried_scales[] = {1.0f, 0.95f, 0.9f, 0.85f, 0.8f};

float nearest_bf16(float x, rows::bf16* out) {
  rows::store(out, x);
  return rows::load(*out);
}

// The row as 8-bit integers; returns its scale.
float to_int8(const float* w, std::int64_t count, std::int8_t* q) {
  float largest = 0, not_finite = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::abs(w[i]));
    not_finite += w[i] * 0;
  }
  const float scale = largest / 127;
  const bool usable = not_finite == 0 && scale > std::numeric_limits<float>::min();
  for (std::int64_t i = 0; i < count; ++i) {
    q[i] = usable ? static_cast<std::int8_t>(std::clamp(std::nearbyint(w[i] / scale), -127.0f, 127.0f)) : 0;
  }
  return usable ? scale : not_finite;
}

// A group as integers 0..15 around 8, with the scale among the tried ones that leaves the smallest squared error.
void to_int4(const float* w, std::uint8_t* q, rows::bf16* best_scale) {
  float extreme = 0, not_finite = 0;
  for (std::int64_t i = 0; i < packed_group; ++i) {
    if (std::abs(w[i]) > std::abs(extreme)) extreme = w[i];
    not_finite += w[i] * 0;
  }
  std::fill_n(q, packed_group, std::uint8_t{8});
  nearest_bf16(not_finite, best_scale);
  if (not_finite != 0 || std::abs(extreme) < 1e-30f) return;
  float best = std::numeric_limits<float>::infinity();
  for (const float part : tried_scales) {
    rows::bf16 rounded;
    const float scale = nearest_bf16(extreme / -8 * part, &rounded), inverse = 1 / scale;
    std::uint8_t candidate[packed_group];
    float error = 0;
    for (std::int64_t i = 0; i < packed_group; ++i) {
      // Truncation of a positive number rounds to the nearest.
      const float level = std::min(15.0f, std::max(0.0f, w[i] * inverse + 8.5f));
      candidate[i] = static_cast<std::uint8_t>(static_cast<std::int32_t>(level));
      const float difference = w[i] - scale * (static_cast<float>(candidate[i]) - 8);
      error += difference * difference;
    }
    if (error >= best) continue;
    best = error;
    *best_scale = rounded;
    std::copy_n(candidate, packed_group, q);
  }
}

void pack_int8_block(const PackedWeight& p, const float* weight, std::int64_t block) {
  const std::int64_t groups = p.groups(), padded = groups * packed_group;
  std::int8_t* data = reinterpret_cast<std::int8_t*>(p.data.mutable_data_ptr<std::uint8_t>());
  data += block * padded * packed_block;
  std::vector<std::int8_t> row(static_cast<std::size_t>(padded), 0);
  for (std::int64_t r = 0; r < packed_block && block * packed_block + r < p.outputs; ++r) {
    const std::int64_t n = block * packed_block + r;
    p.scales.mutable_data_ptr<float>()[n] = to_int8(weight + n * p.inputs, p.inputs, row.data());
    for (std::int64_t k = 0; k < padded; ++k) {
      data[k / 2 * (2 * packed_block) + 2 * r + k % 2] = row[static_cast<std::size_t>(k)];
    }
  }
}

void pack_int4_block(const PackedWeight& p, const float* weight, std::int64_t block) {
  const std::int64_t groups = p.groups();
  auto* scales = static_cast<rows::bf16*>(p.scales.mutable_data_ptr());
  for (std::int64_t g = 0; g < groups; ++g) {
    std::uint8_t* data =
        p.data.mutable_data_ptr<std::uint8_t>() + (block * groups + g) * packed_group * packed_block / 2;
    for (std::int64_t r = 0; r < packed_block; ++r) {
      const std::int64_t n = block * packed_block + r;
      float values[packed_group] = {};
      if (n < p.outputs) {
        const std::int64_t count = std::min(packed_group, p.inputs - g * packed_group);
        std::copy_n(weight + n * p.inputs + g * packed_group, count, values);
      }
      std::uint8_t q[packed_group];
      to_int4(values, q, scales + (block * groups + g) * packed_block + r);
      for (std::int64_t part = 0; part < 4; ++part) {
        for (std::int64_t word = 0; word < 2; ++word) {
          const std::uint8_t* from = q + 8 * part + word;
          std::uint8_t* to = data + 64 * part + 4 * r + 2 * word;
          to[0] = static_cast<std::uint8_t>(from[0] | (from[2] << 4));
          to[1] = static_cast<std::uint8_t>(from[4] | (from[6] << 4));
        }
      }
    }
  }
}

}  // namespace

const char* weight_format_name(WeightFormat format) { return format == WeightFormat::int8 ? "int8" : "int4"; }

std::int64_t PackedWeight::bytes() const {
  return data.numel() + scales.numel() * static_cast<std::int64_t>(scales.element_size());
}

std::int64_t packed_bytes(WeightFormat format, std::int64_t outputs, std::int64_t inputs) {
  const std::int64_t blocks = (outputs + packed_block - 1) / packed_block;
  const std::int64_t groups = (inputs + packed_group - 1) / packed_group;
  const std::int64_t weights = blocks * packed_block * groups * packed_group;
  return format == WeightFormat::int8 ? weights + blocks * packed_block * 4
                                      : weights / 2 + blocks * packed_block * groups * 2;
}

PackedWeight pack_weight(const at::Tensor& weight_NK, WeightFormat format) {
  if (weight_NK.dim() != 2 || !weight_NK.is_cpu()) {
    fail(ExitCode::internal, "pack_weight: the weight must be a matrix on the CPU");
  }
  const at::Tensor weight = dense_fp32(weight_NK.detach());
  PackedWeight p{format, weight.size(0), weight.size(1), {}, {}};
  const std::int64_t weights = p.blocks() * packed_block * p.groups() * packed_group;
  const bool eight = format == WeightFormat::int8;
  p.data = at::empty({eight ? weights : weights / 2}, at::kByte);
  if (eight) p.data.zero_();
  p.scales = eight ? at::zeros({p.blocks(), packed_block}, at::kFloat)
                   : at::zeros({p.blocks(), p.groups(), packed_block}, at::kBFloat16);
  const auto* from = weight.const_data_ptr<float>();
  parallel_ranges(p.blocks(), 8 * packed_block * p.inputs, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) (eight ? pack_int8_block : pack_int4_block)(p, from, b);
  });
  return p;
}

at::Tensor unpack_weight(const PackedWeight& weight, at::ScalarType dtype) {
  return cpu::unpack_blocks(weight, dtype, 0, weight.blocks()).narrow(1, 0, weight.outputs).t();
}

namespace cpu {

at::Tensor unpack_blocks(const PackedWeight& weight, at::ScalarType dtype, std::int64_t begin, std::int64_t end) {
  const at::Tensor out = at::empty({weight.inputs, (end - begin) * packed_block}, at::TensorOptions().dtype(dtype));
  const bool eight = weight.format == WeightFormat::int8;
  with_element(isa_table(), dtype, [&](const auto& table, auto element) {
    using T = decltype(element);
    const rows::UnpackWeight<T> args{.data = weight.data.const_data_ptr<std::uint8_t>(),
                                     .row_scales = eight ? in<float>(weight.scales) : nullptr,
                                     .group_scales = eight ? nullptr : in<rows::bf16>(weight.scales),
                                     .out = satformer::out<T>(out),
                                     .first = begin,
                                     .stride = out.size(1),
                                     .inputs = weight.inputs,
                                     .groups = weight.groups()};
    parallel_ranges(end - begin, packed_block * weight.inputs, [&](std::int64_t first, std::int64_t last) {
      table.unpack_weight(args, begin + first, begin + last);
    });
  });
  return out;
}

}  // namespace cpu
}  // namespace satformer
