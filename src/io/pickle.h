// The part of Python's pickle format that torch.save uses, as a tree of values. Nothing is executed: a class or
// function is a name, its call an object that remembers name and arguments, and a name that is not on the list below
// is refused.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace satformer {

struct PickleValue {
  enum class Kind { none, boolean, integer, real, string, list, tuple, dict, global, object, persistent, opaque };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // integer, boolean
  double real = 0;
  std::string_view text;  // string; global: "module name"
  // list, tuple: elements. dict: key, value, key, value, ... object: callable, arguments. persistent: its id.
  // A value may contain itself.
  std::vector<const PickleValue*> items;

  const PickleValue* find(std::string_view key) const;  // dict, string keys; nullptr if absent
};
const char* kind_name(PickleValue::Kind kind);

class Pickle {
 public:
  // `bytes` and `origin` (which names them in errors) outlive this. Error(checkpoint): bytes that are no pickle of
  // protocol 2 to 5, opcodes and globals that torch.save does not use, by name.
  Pickle(std::span<const std::byte> bytes, const std::string& origin);
  const PickleValue& root() const { return *root_; }

 private:
  friend class PickleReader;
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;
  const PickleValue* root_ = nullptr;
};

}  // namespace satformer
