// Element types and elementary functions of the row kernels. Plain code shared by host and CUDA: no std headers, and
// everything has internal linkage, because the host compiles it several times with different instruction sets.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define SATFORMER_HD __host__ __device__ static inline
#else
#define SATFORMER_HD static inline
#endif

namespace satformer::rows {

struct bf16 {
  uint16_t bits;
};

SATFORMER_HD uint32_t bits_of(float x) {
  union {
    float f;
    uint32_t u;
  } v{x};
  return v.u;
}
SATFORMER_HD float from_bits(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v{u};
  return v.f;
}

SATFORMER_HD float load(const float& x) { return x; }
SATFORMER_HD float load(const bf16& x) { return from_bits(static_cast<uint32_t>(x.bits) << 16); }
SATFORMER_HD void store(float* to, float x) { *to = x; }
// Round to nearest even; every NaN becomes the quiet one.
SATFORMER_HD void store(bf16* to, float x) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
  const uint32_t u = bits_of(x);
  const uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  to->bits = static_cast<uint16_t>(x == x ? rounded : 0x7fc0U);
#endif
}
// The same for what is no NaN.
SATFORMER_HD void store_number(float* to, float x) { *to = x; }
SATFORMER_HD void store_number(bf16* to, float x) {
  const uint32_t u = bits_of(x);
  to->bits = static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
}
// x as T holds it.
template <class T>
SATFORMER_HD float rounded_to(float x) {
  T t;
  store(&t, x);
  return load(t);
}

// exp(x) = fraction * 2^n with n the integer nearest x / ln 2, which stands in the low bits of `shifted`: e^f with
// |f| <= ln2 / 2 by a degree-6 polynomial.
struct ExpParts {
  float fraction, shifted;
};
SATFORMER_HD ExpParts exp_parts(float x) {
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const float shifted = x * 1.44269504088896341f + magic;
  const float n = shifted - magic;
  const float f = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  return {p * (f * f) + f + 1.0f, shifted};
}

// exp to about 1 ulp over the whole range (0 and infinity at its ends, subnormal results included).
SATFORMER_HD float exp_fp32(float x) {
  const float clamped = x < -104.0f ? -104.0f : (x > 89.0f ? 89.0f : x);
  const ExpParts e = exp_parts(clamped);
  // 2^n in two factors, since n = 128 and n < -126 have no float of their own.
  const int32_t k = static_cast<int32_t>(bits_of(e.shifted)) - 0x4b400000;
  const int32_t half = k >> 1;
  const float a = from_bits(static_cast<uint32_t>(half + 127) << 23);
  const float b = from_bits(static_cast<uint32_t>(k - half + 127) << 23);
  return e.fraction * a * b;
}

// exp of what is at most 0 (a little above does no harm), about 1 ulp; below -87 it stays at exp(-87), 1.6e-38: for
// sums of weights of which the largest is 1.
SATFORMER_HD float exp_nonpositive(float x) {
  const float clamped = x < -87.0f ? -87.0f : x;
  const ExpParts e = exp_parts(clamped);
  return e.fraction * from_bits((bits_of(e.shifted) << 23) + (127U << 23));
}

SATFORMER_HD float sigmoid_fp32(float x) { return 1.0f / (1.0f + exp_fp32(-x)); }

SATFORMER_HD float tanh_fp32(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float large = 1.0f - 2.0f / (exp_fp32(2.0f * magnitude) + 1.0f);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  const float small = x + x * z * p;
  return magnitude < 0.625f ? small : (x < 0.0f ? -large : large);
}

SATFORMER_HD float rsqrt_fp32(float x) { return 1.0f / __builtin_sqrtf(x); }

}  // namespace satformer::rows
