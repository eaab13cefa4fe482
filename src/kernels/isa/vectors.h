// Vectors of the instruction set of the including file (kernels/isa/make_table.h alone includes what needs them).
#pragma once

#include "kernels/row_math.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace satformer::rows {

#if defined(__AVX512BW__)
static constexpr int lanes = 16;
#elif defined(__AVX2__)
static constexpr int lanes = 8;
#else
static constexpr int lanes = 4;
#endif

typedef float Floats __attribute__((vector_size(4 * lanes)));
typedef int32_t Ints __attribute__((vector_size(4 * lanes)));
typedef uint32_t Words __attribute__((vector_size(4 * lanes)));
typedef int16_t Shorts __attribute__((vector_size(4 * lanes)));
typedef uint16_t Nibbles __attribute__((vector_size(4 * lanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * lanes)));
typedef int8_t Bytes __attribute__((vector_size(2 * lanes)));
// As they lie in memory.
typedef float FloatsAt __attribute__((vector_size(4 * lanes), aligned(4), may_alias));
typedef uint16_t HalvesAt __attribute__((vector_size(2 * lanes), aligned(2), may_alias));
typedef int8_t BytesAt __attribute__((vector_size(2 * lanes), aligned(1), may_alias));
typedef uint16_t NibblesAt __attribute__((vector_size(4 * lanes), aligned(1), may_alias));

#define SATFORMER_INLINE [[gnu::always_inline]] static inline

SATFORMER_INLINE Floats floats_at(const float* p) { return *reinterpret_cast<const FloatsAt*>(p); }
SATFORMER_INLINE Floats floats_at(const bf16* p) {
  // What the compiler makes of a conversion of whole vectors takes twice the instructions.
#if defined(__AVX512BW__)
  // (The masked form because GCC 12 warns of the inside of the other one.)
  const __m512i w = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(w) << 16);
#elif defined(__AVX2__)
  const __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return reinterpret_cast<Floats>(reinterpret_cast<Words>(w) << 16);
#else
  const Halves h = *reinterpret_cast<const HalvesAt*>(p);
  return reinterpret_cast<Floats>(__builtin_convertvector(h, Words) << 16);
#endif
}
// Rounded as store() does.
SATFORMER_INLINE void put(float* to, Floats x) { *reinterpret_cast<FloatsAt*>(to) = x; }
SATFORMER_INLINE void put(bf16* to, Floats x) {
  const Words u = reinterpret_cast<Words>(x);
  const Words rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16, nan = 0x7fc0U - Words{};
  const Words kept = x == x ? rounded : nan;
#if defined(__AVX512BW__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtepi32_epi16(0xffff, reinterpret_cast<__m512i>(kept)));
#elif defined(__AVX2__)
  const __m256i w = reinterpret_cast<__m256i>(kept);
  const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(w, w), 0xd8);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(halves));
#else
  *reinterpret_cast<HalvesAt*>(to) = __builtin_convertvector(kept, Halves);
#endif
}

// One number or a vector of them, by the type of the second argument.
template <class T>
SATFORMER_INLINE float at(const T* p, float) {
  return load(*p);
}
template <class T>
SATFORMER_INLINE Floats at(const T* p, Floats) {
  return floats_at(p);
}
template <class T>
SATFORMER_INLINE void put(T* to, float x) {
  store(to, x);
}

// body(i, zero) for all columns: a vector of them at a time, then one at a time; `zero` has the type of a step.
template <class Body>
SATFORMER_INLINE void for_columns(int64_t columns, const Body& body) {
  int64_t i = 0;
  for (; i + lanes <= columns; i += lanes) body(i, Floats{});
  for (; i < columns; ++i) body(i, 0.0f);
}

SATFORMER_INLINE Shorts shorts_at(const uint8_t* p) {
#if defined(__AVX512BW__)
  return reinterpret_cast<Shorts>(_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__AVX2__)
  return reinterpret_cast<Shorts>(_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
  const Bytes bytes = *reinterpret_cast<const BytesAt*>(p);
  return __builtin_convertvector(bytes, Shorts);
#endif
}
SATFORMER_INLINE Ints broadcast(int32_t x) { return x - Ints{}; }

SATFORMER_INLINE float sum_of(Floats v) {
#if defined(__AVX512BW__)
  v += __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif defined(__AVX2__)
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#else
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2);
#endif
  return v[0];
}

// sum + the products of neighbouring pairs.
SATFORMER_INLINE Ints add_products(Ints sum, Shorts a, Shorts b) {
#if defined(__AVX512BW__)
  return sum + reinterpret_cast<Ints>(_mm512_madd_epi16(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return sum + reinterpret_cast<Ints>(_mm256_madd_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return sum + reinterpret_cast<Ints>(_mm_madd_epi16(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  for (int i = 0; i < lanes; ++i) {
    sum[i] += static_cast<int32_t>(a[2 * i]) * b[2 * i] + static_cast<int32_t>(a[2 * i + 1]) * b[2 * i + 1];
  }
  return sum;
#endif
}

}  // namespace satformer::rows
