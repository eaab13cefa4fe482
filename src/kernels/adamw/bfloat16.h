// AdamW on bf16 parameters and moments, without fp32 masters: 8 bytes a parameter with its gradient instead of 16.
// An update smaller than half a step of bf16 (1/256 of the value) is lost under round-to-nearest, so parameters near
// 1.0 stand still at usual rates; stochastic rounding keeps the update right on average.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/adamw/adamw.h"

namespace satformer {

enum class Bf16Rounding {
  nearest,    // as torch.optim.AdamW with fused=True on bf16 tensors
  stochastic  // up or down by chance, in proportion to the distance
};

// The update is computed in fp32 from bf16 state; parameter and moments are rounded when they are stored. All tensors
// bf16; stochastic: on the CPU. `streams` (one for each tensor; stochastic only) and options.step choose the random
// bits of `seed`: the same call gives the same result for any number of threads.
void adamw_step_bf16(AdamWTensors& tensors, const AdamWOptions& options, Bf16Rounding rounding,
                     std::uint64_t seed = 0, const std::vector<std::uint64_t>& streams = {});

// One of the two bf16 neighbours of `value`, the upper with probability (value - lower) / (upper - lower). `bits`: 16
// uniform bits. NaN and infinities stay.
std::uint16_t round_stochastically(float value, std::uint16_t bits);

}  // namespace satformer
