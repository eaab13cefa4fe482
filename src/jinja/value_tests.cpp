// What "is" asks for.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "jinja/given.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "jinja/text_tools.h"

namespace satformer::jinja {
namespace {

struct NamedTest {
  std::string_view name;
  bool (*holds)(const Value& input);                           // without an argument, or
  bool (*holds_with)(const Value& input, const Value& other);  // with one
};

std::int64_t whole_of(const Value& value) {
  if (value.is_undefined()) fail(ExitCode::data, value.get<Undefined>()->why);
  if (!value.integer()) fail(ExitCode::data, "'", value.type_name(), "' is no whole number");
  return *value.integer();
}

bool equal_values(const Value& a, const Value& b) { return equal(a, b); }
bool unequal_values(const Value& a, const Value& b) { return !equal(a, b); }
bool less_than(const Value& a, const Value& b) { return less(a, b); }
bool at_most(const Value& a, const Value& b) { return !less(b, a); }
bool greater_than(const Value& a, const Value& b) { return less(b, a); }
bool at_least(const Value& a, const Value& b) { return !less(a, b); }

const NamedTest named_tests[] = {
    {"defined", [](const Value& v) { return !v.is_undefined(); }, nullptr},
    {"undefined", [](const Value& v) { return v.is_undefined(); }, nullptr},
    {"none", [](const Value& v) { return v.is_none(); }, nullptr},
    {"string", [](const Value& v) { return v.text() != nullptr; }, nullptr},
    {"mapping", [](const Value& v) { return v.dict() != nullptr; }, nullptr},
    {"iterable", [](const Value& v) { return v.list() || v.dict() || v.text() || v.is_undefined(); }, nullptr},
    {"sequence", [](const Value& v) { return v.list() || v.dict() || v.text() || v.is_undefined(); }, nullptr},
    {"number", [](const Value& v) { return v.is_number(); }, nullptr},
    {"integer", [](const Value& v) { return v.get<std::int64_t>() != nullptr; }, nullptr},
    {"float", [](const Value& v) { return v.get<double>() != nullptr; }, nullptr},
    {"boolean", [](const Value& v) { return v.get<bool>() != nullptr; }, nullptr},
    {"true", [](const Value& v) { return v.get<bool>() && v.truth(); }, nullptr},
    {"false", [](const Value& v) { return v.get<bool>() && !v.truth(); }, nullptr},
    {"callable", [](const Value& v) { return v.function() != nullptr; }, nullptr},
    {"odd", [](const Value& v) { return whole_of(v) % 2 != 0; }, nullptr},
    {"even", [](const Value& v) { return whole_of(v) % 2 == 0; }, nullptr},
    {"lower",
     [](const Value& v) {
       return v.text() && lower_text(*v.text()) == *v.text() && upper_text(*v.text()) != *v.text();
     },
     nullptr},
    {"upper",
     [](const Value& v) {
       return v.text() && upper_text(*v.text()) == *v.text() && lower_text(*v.text()) != *v.text();
     },
     nullptr},
    {"filter", [](const Value& v) { return v.text() && is_filter(*v.text()); }, nullptr},
    {"test", [](const Value& v) { return v.text() && is_test(*v.text()); }, nullptr},
    {"divisibleby", nullptr,
     [](const Value& a, const Value& b) {
       const std::int64_t by = whole_of(b);
       if (by == 0) fail(ExitCode::data, "division by zero");
       return by == -1 || whole_of(a) % by == 0;
     }},
    {"in", nullptr, [](const Value& a, const Value& b) { return contains(b, a); }},
    {"sameas", nullptr,
     [](const Value& a, const Value& b) {
       return a.type_name() == b.type_name() && (a.list()   ? a.list() == b.list()
                                                 : a.dict() ? a.dict() == b.dict()
                                                            : equal(a, b));
     }},
    {"eq", nullptr, equal_values},
    {"equalto", nullptr, equal_values},
    {"ne", nullptr, unequal_values},
    {"lt", nullptr, less_than},
    {"lessthan", nullptr, less_than},
    {"le", nullptr, at_most},
    {"gt", nullptr, greater_than},
    {"greaterthan", nullptr, greater_than},
    {"ge", nullptr, at_least},
    {"==", nullptr, equal_values},
    {"!=", nullptr, unequal_values},
    {"<", nullptr, less_than},
    {"<=", nullptr, at_most},
    {">", nullptr, greater_than},
    {">=", nullptr, at_least},
};

const NamedTest* find_test(const std::string& name) {
  const auto found = std::find_if(std::begin(named_tests), std::end(named_tests),
                                  [&](const NamedTest& test) { return test.name == name; });
  return found == std::end(named_tests) ? nullptr : found;
}

}  // namespace

bool is_test(const std::string& name) { return find_test(name) != nullptr; }

const std::vector<std::string>& test_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const NamedTest& test : named_tests) all.emplace_back(test.name);
    return all;
  }();
  return names;
}

bool apply_test(Interpreter& in, const std::string& name, const Value& input, const Arguments& arguments) {
  in.charge(1);
  const NamedTest& test = *find_test(name);
  if (test.holds) {
    const Given none(name, arguments, {});
    return test.holds(input);
  }
  const Value& other = Given(name, arguments, {"other"}).at("other");
  if (other.list()) in.charge(other.list()->items.size());
  return test.holds_with(input, other);
}

}  // namespace satformer::jinja
