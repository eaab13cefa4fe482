// The values of a template's expressions, which behave like Python's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"

namespace satformer::jinja {

class Value;
class Interpreter;

struct Arguments;
struct List;
class Dict;
struct Function;
struct Namespace;

// What a name or key that is not there gives. It prints as nothing and is an empty list; other uses are errors.
struct Undefined {
  std::string why;  // "'x' is undefined"
};
struct None {};

class Value {
 public:
  using Any = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
                           std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<const Function>,
                           std::shared_ptr<Namespace>>;
  Value() : value_(None()) {}
  Value(Undefined v) : value_(std::move(v)) {}
  Value(None) : value_(None()) {}
  Value(bool v) : value_(v) {}
  Value(std::int64_t v) : value_(v) {}
  Value(double v) : value_(v) {}
  Value(std::string v) : value_(std::make_shared<const std::string>(std::move(v))) {}
  Value(const char* v) : Value(std::string(v)) {}
  Value(std::shared_ptr<Namespace> v) : value_(std::move(v)) {}
  // Error(data) for values within values within values without end.
  static Value list(std::vector<Value> items, bool tuple = false);
  static Value dict(Dict values);
  static Value function(std::string name, std::function<Value(Interpreter&, const Arguments&)> call);
  static Value from_json(const Json& json, int above = 0);

  template <class T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }
  bool is_undefined() const { return get<Undefined>() != nullptr; }
  bool is_none() const { return get<None>() != nullptr; }
  const std::string* text() const;
  const List* list() const;
  const Dict* dict() const;
  const Function* function() const;
  Namespace* name_space() const;
  bool is_number() const;
  std::optional<std::int64_t> integer() const;  // true is 1 and false 0, as in Python
  double number() const;                        // of a number; 0 for others

  bool truth() const;
  std::string type_name() const;  // "str", "int", "dict", ...
  int depth() const;

 private:
  Any value_;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;
};
// Keys are texts, in the order in which they came.
class Dict {
 public:
  const Value* find(std::string_view key) const;
  void set(std::string key, Value value);
  const std::vector<std::pair<std::string, Value>>& items() const { return items_; }
  std::size_t size() const { return items_.size(); }
  void clear();
  int depth = 1;

 private:
  std::vector<std::pair<std::string, Value>> items_;
  std::vector<std::size_t> order_;  // of items by key, where there are many
};
struct Function {
  std::string name;
  std::function<Value(Interpreter&, const Arguments&)> call;
};
struct Namespace {
  Dict values;
};

// str() and repr(). Never more than `limit` bytes and a little: longer ones are Error(data).
std::string to_text(const Value& value, std::size_t limit);
std::string to_quoted_text(const Value& value, std::size_t limit);

struct JsonStyle {
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
  bool sort_keys = false, ascii = false;
};
// json.dumps(). Error(data) for what JSON has not.
std::string to_json_text(const Value& value, const JsonStyle& style, std::size_t limit);

// ==, and < of numbers, texts and lists; Error(data) for other pairs, and where there is too much to compare.
bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);
// `item in container`.
bool contains(const Value& container, const Value& item);

// Elements of what can be iterated: lists, keys, characters, nothing for undefined. Error(data) for others.
std::vector<Value> elements(const Value& value);
// Number of characters, elements or keys.
std::int64_t length(const Value& value);

}  // namespace satformer::jinja
