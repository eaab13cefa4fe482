#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace satformer::jinja {
namespace {

[[noreturn]] void no_operation(const std::string& sign, const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) fail(ExitCode::data, value->get<Undefined>()->why);
  }
  fail(ExitCode::data, "'", sign, "' takes no '", a.type_name(), "' and '", b.type_name(), "'");
}

Value whole_arithmetic(const std::string& sign, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  bool overflow = false;
  if (sign == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (sign == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (sign == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (sign == "**") {
    if (b < 0) return std::pow(static_cast<double>(a), static_cast<double>(b));
    result = 1;
    for (std::int64_t i = 0; i < b && !overflow && !(a >= -1 && a <= 1 && i > 2); ++i) {
      overflow = __builtin_mul_overflow(result, a, &result);
    }
    if (a == -1) result = b % 2 == 0 ? 1 : -1;
  } else {
    if (b == 0) fail(ExitCode::data, "division by zero");
    if (sign == "/") return static_cast<double>(a) / static_cast<double>(b);
    if (b == -1) {
      if (sign == "%") return std::int64_t{0};
      overflow = __builtin_sub_overflow(std::int64_t{0}, a, &result);
    } else {
      // Towards minus infinity, as Python has it.
      const std::int64_t rest = a % b;
      const bool below = rest != 0 && (rest < 0) != (b < 0);
      result = sign == "%" ? (below ? rest + b : rest) : a / b - (below ? 1 : 0);
    }
  }
  if (overflow) fail(ExitCode::data, "a number becomes too large");
  return result;
}

Value real_arithmetic(const std::string& sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") return std::pow(a, b);
  if (b == 0) fail(ExitCode::data, "division by zero");
  if (sign == "/") return a / b;
  if (sign == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// "%s" and "%d" of the values in turn.
std::string printed(Interpreter& in, const std::string& format, const Value& values) {
  const std::vector<Value> items =
      values.list() && values.list()->tuple ? values.list()->items : std::vector<Value>{values};
  std::string text;
  std::size_t used = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      text += format[i];
      continue;
    }
    const char kind = ++i < format.size() ? format[i] : ' ';
    if (kind == '%') {
      text += '%';
      continue;
    }
    if (kind != 's' && kind != 'd') fail(ExitCode::data, "of formats, %s, %d and %% alone are supported");
    if (used >= items.size()) fail(ExitCode::data, "the format asks for more than ", items.size(), " values");
    const Value& value = items[used++];
    if (kind == 'd' && !value.integer()) fail(ExitCode::data, "%d asks for a whole number");
    text += kind == 'd' ? std::to_string(*value.integer()) : in.shown(value);
    if (text.size() > in.limits().text) break;  // the caller says so
  }
  if (used < items.size()) fail(ExitCode::data, "the format leaves values over");
  return text;
}

}  // namespace

Value arithmetic(Interpreter& in, const std::string& sign, const Value& a, const Value& b) {
  if (sign == "~") return in.text(in.shown(a) + in.shown(b));
  if (a.is_number() && b.is_number()) {
    const auto x = a.integer(), y = b.integer();
    return x && y ? whole_arithmetic(sign, *x, *y) : real_arithmetic(sign, a.number(), b.number());
  }
  if (sign == "+" && a.text() && b.text()) return in.text(*a.text() + *b.text());
  if (sign == "%" && a.text()) return in.text(printed(in, *a.text(), b));
  if (const List* x = a.list(), *y = b.list(); sign == "+" && x && y && x->tuple == y->tuple) {
    in.charge(x->items.size() + y->items.size());
    std::vector<Value> items = x->items;
    items.insert(items.end(), y->items.begin(), y->items.end());
    return Value::list(std::move(items), x->tuple);
  }
  const Value &repeated = a.integer() ? b : a, &times = a.integer() ? a : b;
  if (sign == "*" && times.integer() && (repeated.text() || repeated.list())) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(*times.integer(), 0));
    const std::size_t size = repeated.text() ? repeated.text()->size() : repeated.list()->items.size();
    if (size > 0 && count > in.limits().text / size) {
      fail(ExitCode::data, "a text or list becomes larger than ", in.limits().text);
    }
    in.charge(repeated.text() ? count * size / 64 : count * size);
    if (const std::string* once = repeated.text()) {
      std::string made;
      made.reserve(count * size);
      for (std::size_t i = 0; i < count; ++i) made += *once;
      return made;
    }
    std::vector<Value> made;
    for (std::size_t i = 0; i < count && size > 0; ++i) {
      made.insert(made.end(), repeated.list()->items.begin(), repeated.list()->items.end());
    }
    return Value::list(std::move(made), repeated.list()->tuple);
  }
  no_operation(sign, a, b);
}

}  // namespace satformer::jinja
