// Gates and their gradients, one head at a time; shared by the rows of the CPU and the GPU's programs.
#pragma once

#include "kernels/row_math.h"

namespace satformer::rows {

enum GateCode : int { gate_relu, gate_sigmoid, gate_tanh, gate_identity, gate_softmax, gate_softmax_sigmoid };

SATFORMER_HD bool over_heads(int gate) { return gate == gate_softmax || gate == gate_softmax_sigmoid; }

// alpha of a head with logit z. For the gates over heads: the token's largest logit, and its sum of exp(z - largest).
SATFORMER_HD float gate_value(int gate, float z, float largest, float total, int64_t heads) {
  float value = z;
  if (gate == gate_relu) value = z < 0.0f ? 0.0f : z;
  if (gate == gate_sigmoid) value = sigmoid_fp32(z);
  if (gate == gate_tanh) value = tanh_fp32(z);
  if (over_heads(gate)) value = exp_fp32(z - largest) / total * static_cast<float>(heads);
  if (gate == gate_softmax_sigmoid) value *= sigmoid_fp32(z);
  return value;
}

// Gradient of the logit z from that of alpha, d. For the gates over heads `mean` is sum_j d_j alpha_j / heads:
//   d z_h = alpha_h (d_h - sum_j d_j p_j g_j), p = alpha / (g heads), g = 1 or sigmoid(z).
SATFORMER_HD float gate_value_grad(int gate, float z, float alpha, float d, float mean) {
  float value = d;
  if (gate == gate_relu) value = z > 0.0f ? d : 0.0f;
  if (gate == gate_sigmoid) value = d * alpha * (1.0f - alpha);
  if (gate == gate_tanh) value = d * (1.0f - alpha * alpha);
  if (gate == gate_softmax) value = alpha * (d - mean);
  if (gate == gate_softmax_sigmoid) {
    const float s = sigmoid_fp32(z);
    value = alpha * d * (2.0f - s) - (s > 0.0f ? alpha / s * mean : 0.0f);
  }
  return value;
}

}  // namespace satformer::rows
