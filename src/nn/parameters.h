// Named parameters of a model, in the order of the authors' state_dict.
#pragma once

#include "kernels/tensor.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace satformer {

// How a parameter starts. Normal draws depend only on (seed, name, element), never on device or order.
struct Init {
  enum class Kind { normal, constant, values } kind = Kind::constant;
  double value = 0.0;              // standard deviation (normal) or the constant
  std::vector<float> values = {};  // Kind::values: every element, row-major
  static Init normal(double std) { return {Kind::normal, std, {}}; }
  static Init constant(double value) { return {Kind::constant, value, {}}; }
  static Init elements(std::vector<float> v) { return {Kind::values, 0.0, std::move(v)}; }
};

// What a parameter is, for decay groups and for counting by part.
enum class ParamKind { embedding, matrix, norm, bias, gate, scalar };
const char* param_kind_name(ParamKind kind);

struct Parameter {
  std::string name;
  at::Tensor value;  // leaf that requires grad, fp32 unless ParameterStore::to() was called; on the meta device
                     // (shape only) in a described model
  Init init;
  ParamKind kind = ParamKind::matrix;
  std::string part;  // "embedding", "attention", "mlp", "norm", "value path", "routing", "head"
};

class ParameterStore {
 public:
  explicit ParameterStore(at::Device device) : device_(device) {}
  // Allocates without initialising (initialise() or a loader follows). A second use of a name is a defect.
  at::Tensor add(const std::string& name, at::IntArrayRef shape, Init init, ParamKind kind, const std::string& part);
  void initialise(std::uint64_t seed);
  // Changes the type of every parameter; whoever holds one sees it. Training without fp32 masters.
  void to(at::ScalarType dtype);
  const std::vector<Parameter>& list() const { return list_; }
  std::vector<Parameter>& list() { return list_; }
  const Parameter* find(std::string_view name) const;
  std::int64_t count() const;  // elements
  at::Device device() const { return device_; }

 private:
  at::Device device_;
  std::vector<Parameter> list_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

}  // namespace satformer
