#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/unicode.h"
#include "jinja/interpreter.h"

namespace satformer::jinja {
namespace {

Value no_attribute(const Value& of, const std::string& name) {
  if (of.is_undefined()) fail(ExitCode::data, of.get<Undefined>()->why);
  return Undefined{concat("'", of.type_name(), " object' has no attribute '", name, "'")};
}

// Python's slice of `size` elements: first, step, how many.
struct SliceRange {
  std::int64_t first = 0, step = 1, count = 0;
};
SliceRange slice_of(std::int64_t size, std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
                    std::int64_t step) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto bounded = [&](std::optional<std::int64_t> at, std::int64_t otherwise) {
    if (!at) return otherwise;
    return std::clamp(*at < 0 ? (*at < -size ? low : *at + size) : *at, low, high);
  };
  const std::int64_t first = bounded(begin, step > 0 ? low : high), last = bounded(end, step > 0 ? high : low);
  const std::int64_t distance = step > 0 ? last - first : first - last;
  const std::int64_t stride = step > 0 ? step : -step;
  return {first, step, distance > 0 ? (distance + stride - 1) / stride : 0};
}

}  // namespace

Value Interpreter::evaluate(const Expression& e) {
  if (++depth_ > limits_.depth) {
    fail(ExitCode::data, "the template calls itself more than ", limits_.depth, " deep");
  }
  charge(1);
  line_ = e.line;
  Value result;
  switch (e.kind) {
    case Expression::constant:
      result = e.value;
      break;
    case Expression::name:
      result = name(e);
      break;
    case Expression::list: {
      std::vector<Value> items;
      for (const ExpressionPointer& child : e.children) items.push_back(evaluate(*child));
      result = Value::list(std::move(items), e.flag);
      break;
    }
    case Expression::dict: {
      Dict values;
      for (std::size_t i = 0; i + 1 < e.children.size(); i += 2) {
        const Value key = evaluate(*e.children[i]);
        if (!key.text()) fail(ExitCode::data, "a key must be a text, not '", key.type_name(), "'");
        values.set(*key.text(), evaluate(*e.children[i + 1]));
      }
      result = Value::dict(std::move(values));
      break;
    }
    case Expression::attribute:
      result = attribute(evaluate(*e.children[0]), e.text);
      break;
    case Expression::item: {
      const Value of = evaluate(*e.children[0]);
      result = item(of, evaluate(*e.children[1]));
      break;
    }
    case Expression::slice:
      result = slice(e);
      break;
    case Expression::call: {
      const Value callee = evaluate(*e.children[0]);
      const Arguments given = arguments(e);
      line_ = e.line;
      result = call(callee, given);
      break;
    }
    case Expression::filter: {
      const Value input = evaluate(*e.children[0]);
      const Arguments given = arguments(e);
      line_ = e.line;
      result = apply_filter(*this, e.text, input, given);
      break;
    }
    case Expression::test: {
      const Value input = evaluate(*e.children[0]);
      const Arguments given = arguments(e);
      line_ = e.line;
      result = apply_test(*this, e.text, input, given) != e.flag;
      break;
    }
    case Expression::unary: {
      const Value value = evaluate(*e.children[0]);
      if (e.text == "not") {
        result = !value.truth();
      } else if (value.is_undefined()) {
        fail(ExitCode::data, value.get<Undefined>()->why);
      } else if (!value.is_number()) {
        fail(ExitCode::data, "'", e.text, "' asks for a number, not '", value.type_name(), "'");
      } else if (const auto whole = value.integer(); whole && *whole != INT64_MIN) {
        result = e.text == "-" ? -*whole : *whole;
      } else {
        result = e.text == "-" ? -value.number() : value.number();
      }
      break;
    }
    case Expression::binary:
      result = binary(e);
      break;
    case Expression::compare:
      result = compare(e);
      break;
    case Expression::condition:
      if (evaluate(*e.children[1]).truth()) {
        result = evaluate(*e.children[0]);
      } else if (e.children[2]) {
        result = evaluate(*e.children[2]);
      } else {
        result = Undefined{"a condition without 'else' was false"};
      }
      break;
  }
  --depth_;
  return result;
}

Value Interpreter::name(const Expression& e) {
  if (e.text.empty()) return text_of_body_.back();
  if (e.text == "loop") {
    for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
      for (const auto& [known, value] : scope->names) {
        if (known == e.text) return value;
      }
      if (scope->loop) return loop_variable(scope->loop);
    }
  }
  const Value* found = find(e.text);
  return found ? *found : Value(Undefined{concat("'", e.text, "' is undefined")});
}

Value Interpreter::loop_variable(const std::shared_ptr<LoopState>& state) {
  charge(4);
  const auto index = static_cast<std::int64_t>(state->index), size = std::ssize(state->items);
  const auto neighbour = [&](std::int64_t at) {
    return at >= 0 && at < size ? state->items[static_cast<std::size_t>(at)]
                                : Value(Undefined{"there is no such element of the loop"});
  };
  Dict loop;
  loop.set("index", index + 1);
  loop.set("index0", index);
  loop.set("revindex", size - index);
  loop.set("revindex0", size - index - 1);
  loop.set("first", index == 0);
  loop.set("last", index + 1 == size);
  loop.set("length", size);
  loop.set("depth", std::int64_t{1});
  loop.set("depth0", std::int64_t{0});
  loop.set("previtem", neighbour(index - 1));
  loop.set("nextitem", neighbour(index + 1));
  loop.set("cycle", Value::function("cycle", [index](Interpreter&, const Arguments& given) {
             if (given.positional.empty()) fail(ExitCode::data, "cycle() asks for values");
             return given.positional[static_cast<std::size_t>(index) % given.positional.size()];
           }));
  loop.set("changed", Value::function("changed", [weak = std::weak_ptr(state)](Interpreter&, const Arguments& given) {
             const auto held = weak.lock();
             if (!held) return Value(true);
             Value now = Value::list(given.positional, true);
             const bool same = held->changed && equal(*held->changed, now);
             held->changed = std::move(now);
             return Value(!same);
           }));
  return Value::dict(std::move(loop));
}

Arguments Interpreter::arguments(const Expression& e) {
  Arguments given;
  for (const ExpressionPointer& child : e.positional) given.positional.push_back(evaluate(*child));
  for (const auto& [name, child] : e.named) given.named.emplace_back(name, evaluate(*child));
  return given;
}

Value Interpreter::call(const Value& function, const Arguments& given) {
  if (function.is_undefined()) fail(ExitCode::data, function.get<Undefined>()->why);
  if (!function.function()) fail(ExitCode::data, "'", function.type_name(), "' is no function");
  if (++depth_ > limits_.depth) {
    fail(ExitCode::data, "the template calls itself more than ", limits_.depth, " deep");
  }
  const Value held = function;  // what is called may be replaced meanwhile
  Value result = held.function()->call(*this, given);
  --depth_;
  return result;
}

Value Interpreter::attribute(const Value& of, const std::string& name) {
  if (const Namespace* space = of.name_space()) {
    const Value* found = space->values.find(name);
    return found ? *found : no_attribute(of, name);
  }
  if (Value found = method(of, name); !found.is_undefined()) return found;
  const Value* found = of.dict() ? of.dict()->find(name) : nullptr;
  return found ? *found : no_attribute(of, name);
}

Value Interpreter::item(const Value& of, const Value& key) {
  if (const std::string* name = key.text()) {
    const Value* found = of.dict()         ? of.dict()->find(*name)
                         : of.name_space() ? of.name_space()->values.find(*name)
                                           : nullptr;
    if (found) return *found;
    if (Value function = method(of, *name); !function.is_undefined()) return function;
    return no_attribute(of, *name);
  }
  if (of.is_undefined()) fail(ExitCode::data, of.get<Undefined>()->why);
  const auto whole = key.integer();
  if (whole && (of.list() || of.text())) {
    const std::int64_t size = length(of);
    const std::int64_t at = *whole < 0 ? *whole + size : *whole;
    if (of.text()) charge(of.text()->size() / 64);
    if (at < 0 || at >= size) return Undefined{concat("'", of.type_name(), " object' has no element ", *whole)};
    if (of.list()) return of.list()->items[static_cast<std::size_t>(at)];
    std::string_view rest = *of.text();
    for (std::int64_t i = 0; i < at; ++i) rest.remove_prefix(first_code_point(rest).size);
    return std::string(rest.substr(0, first_code_point(rest).size));
  }
  return no_attribute(of, shown(key));
}

Value Interpreter::slice(const Expression& e) {
  const Value of = evaluate(*e.children[0]);
  std::optional<std::int64_t> parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    if (!e.children[i + 1]) continue;
    const Value part = evaluate(*e.children[i + 1]);
    if (!part.is_none() && !part.integer()) {
      fail(ExitCode::data, "a slice asks for whole numbers, not '", part.type_name(), "'");
    }
    parts[i] = part.integer();
  }
  const std::int64_t step = parts[2].value_or(1);
  if (step == 0 || step == INT64_MIN) fail(ExitCode::data, "a slice's step must not be 0");
  if (of.is_undefined()) fail(ExitCode::data, of.get<Undefined>()->why);
  if (!of.list() && !of.text()) fail(ExitCode::data, "'", of.type_name(), "' cannot be sliced");
  const SliceRange range = slice_of(length(of), parts[0], parts[1], step);
  if (const std::string* whole = of.text(); whole && step == 1) {
    std::string_view rest = *whole;
    for (std::int64_t i = 0; i < range.first; ++i) rest.remove_prefix(first_code_point(rest).size);
    std::string_view end = rest;
    for (std::int64_t i = 0; i < range.count; ++i) end.remove_prefix(first_code_point(end).size);
    charge(whole->size() / 64);
    return text(std::string(rest.substr(0, rest.size() - end.size())));
  }
  const std::vector<Value> items = elements(of);
  charge(items.size());
  std::vector<Value> chosen;
  for (std::int64_t i = 0, at = range.first; i < range.count; ++i, at += step) {
    chosen.push_back(items[static_cast<std::size_t>(at)]);
  }
  if (of.list()) return Value::list(std::move(chosen), of.list()->tuple);
  std::string made;
  for (const Value& c : chosen) made += *c.text();
  return text(std::move(made));
}

Value Interpreter::binary(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  if (e.text == "and") return left.truth() ? evaluate(*e.children[1]) : left;
  if (e.text == "or") return left.truth() ? left : evaluate(*e.children[1]);
  const Value right = evaluate(*e.children[1]);
  line_ = e.line;
  return arithmetic(*this, e.text, left, right);
}

Value Interpreter::compare(const Expression& e) {
  Value left = evaluate(*e.children[0]);
  for (std::size_t i = 0; i < e.texts.size(); ++i) {
    Value right = evaluate(*e.children[i + 1]);
    const std::string& sign = e.texts[i];
    bool holds = false;
    if (sign == "in" || sign == "not in") {
      if (right.list()) charge(right.list()->items.size());
      if (right.text()) charge(right.text()->size() / 64);
      holds = contains(right, left) == (sign == "in");
    } else if (sign == "==" || sign == "!=") {
      holds = equal(left, right) == (sign == "==");
    } else if (sign == "<" || sign == ">=") {
      holds = less(left, right) == (sign == "<");
    } else {
      holds = less(right, left) == (sign == ">");
    }
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace satformer::jinja
