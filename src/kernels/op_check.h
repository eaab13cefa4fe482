// For the kernels' tests: holds a fused operation to its reference, and the reference to finite differences.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/autograd.h"
#include "kernels/tensor.h"

namespace satformer::testing {

// Uniform-normal fp32 values from a fixed seed.
at::Tensor random_tensor(std::vector<std::int64_t> shape, std::uint64_t seed, double scale = 1.0, double shift = 0.0);

using OpBody = std::function<TensorList(const TensorList&)>;

struct OpCheck {
  OpBody body;                     // runs a front; returns floating-point outputs
  TensorList inputs;               // fp32; undefined and integer ones are passed on as they are
  std::vector<std::string> names;  // of the inputs, for messages
  std::vector<bool> in_bf16 = {};  // inputs that become bf16 in the bf16 check; empty: all
  double tolerance = 1e-5;         // of the largest magnitude of each compared tensor
  double difference_step = 5e-3;   // 0: no finite differences (the operation has kinks)
  bool bf16 = true;
};

// On every instruction set of this CPU, with the GPU's programs run by the host, and on a GPU where there is one (a
// build with CUDA): outputs and all gradients of the fused path equal the reference's, with
// contiguous and strided inputs and gradients, with each output's gradient missing in turn and with each input not
// wanting one in turn; without recording; in bf16 the error against fp32 is that of the bf16 reference. The
// reference's gradients equal central differences along random directions.
void check_op(const OpCheck& check);

// Whether the checks run on a GPU too. With SATFORMER_TEST_CUDA set, a build with CUDA that finds none throws.
bool cuda_to_test();

// |a - b| within tolerance * max(0.1, largest |b|), same shape; NaN never is.
void expect_near(const at::Tensor& a, const at::Tensor& b, double tolerance, const std::string& what);

// Gradients of sum_i <outputs[i], output_grads[i]> (undefined: left out) with respect to the inputs; undefined where
// there is none.
TensorList gradients(const TensorList& outputs, const TensorList& output_grads, const TensorList& inputs);

}  // namespace satformer::testing
