#include "kernels/hyper_connection/hyper_connection.h"

namespace satformer {

HyperRead hyper_read(const at::Tensor& streams_BTnD, const HyperConnectionParams& params) {
  return reference::hyper_read(streams_BTnD, params);
}

at::Tensor hyper_write(const at::Tensor& streams_BTnD, const HyperRead& read, const at::Tensor& output_BTD) {
  return reference::hyper_write(streams_BTnD, read, output_BTD);
}

}  // namespace satformer
