// Filters over lists and dicts, and the table of all filters.
#include <algorithm>

#include "base/error.h"
#include "jinja/filters.h"
#include "jinja/given.h"
#include "jinja/parser.h"
#include "jinja/text_tools.h"

namespace satformer::jinja {
namespace {

std::vector<Value> counted_elements(Interpreter& in, const Value& input) {
  std::vector<Value> items = elements(input);
  in.charge(1 + items.size());
  return items;
}

// "a.b.0" of a value.
Value by_path(Interpreter& in, Value of, const Value& path) {
  if (path.integer()) return in.item(of, path);
  if (!path.text()) fail(ExitCode::data, "an attribute must be a text, not '", path.type_name(), "'");
  for (const std::string& part : split_text(*path.text(), ".", -1, false)) {
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    of = number && part.size() < 10 ? in.item(of, std::int64_t{std::stoi(part)}) : in.item(of, part);
  }
  return of;
}

// What sorting looks at: texts in small letters unless told otherwise.
Value sort_key(Interpreter& in, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute && !attribute->is_none() ? by_path(in, item, *attribute) : item;
  return key.text() && !case_sensitive ? Value(lower_text(*key.text())) : key;
}

std::vector<Value> sorted(Interpreter& in, const std::vector<Value>& items, const Value* attribute,
                          bool case_sensitive, bool reverse) {
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items) keyed.emplace_back(sort_key(in, item, attribute, case_sensitive), item);
  in.charge(items.size() * 16);
  const auto before = [](const auto& a, const auto& b) { return less(a.first, b.first); };
  // A merge sort: comparisons may throw, and equal elements keep their order.
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::stable_sort(keyed.begin(), keyed.end(), before);
  if (reverse) std::reverse(keyed.begin(), keyed.end());
  std::vector<Value> result;
  for (auto& [key, item] : keyed) result.push_back(std::move(item));
  return result;
}

Value length_filter(Interpreter& in, const Value& input, const Arguments&) {
  if (input.text()) in.charge(input.text()->size() / 64);
  return length(input);
}

Value default_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Given given("default", arguments, {"default_value", "boolean"});
  const bool missing = input.is_undefined() || (given.flag("boolean", false) && !input.truth());
  if (!missing) return input;
  return given.find("default_value") ? *given.find("default_value") : Value("");
}

template <bool last>
Value end_filter(Interpreter& in, const Value& input, const Arguments&) {
  const std::vector<Value> items = counted_elements(in, input);
  if (items.empty())
    return Undefined{last ? "an empty list has no last element" : "an empty list has no first element"};
  return last ? items.back() : items.front();
}

Value list_filter(Interpreter& in, const Value& input, const Arguments&) {
  return in.list(counted_elements(in, input));
}

Value join_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("join", arguments, {"d", "attribute"});
  const std::string between = given.find("d") ? in.shown(given.at("d")) : std::string();
  std::string made;
  bool first = true;
  for (const Value& item : counted_elements(in, input)) {
    if (!first) made += between;
    first = false;
    made += in.shown(given.find("attribute") ? by_path(in, item, given.at("attribute")) : item);
    in.charge(1 + between.size() / 64);
    if (made.size() > in.limits().text) break;
  }
  return in.text(std::move(made));
}

Value items_filter(Interpreter& in, const Value& input, const Arguments&) {
  if (input.is_undefined()) return in.list({});
  if (!input.dict()) fail(ExitCode::data, "items: '", input.type_name(), "' is no dict");
  return in.call(method(input, "items"), {});
}

Value dictsort_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.dict()) fail(ExitCode::data, "dictsort: '", input.type_name(), "' is no dict");
  const Value by(std::int64_t{given.text("by", "key") == "value" ? 1 : 0});
  return in.list(sorted(in, elements(items_filter(in, input, {})), &by, given.flag("case_sensitive", false),
                        given.flag("reverse", false)));
}

Value sort_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  return in.list(sorted(in, counted_elements(in, input), given.find("attribute"), given.flag("case_sensitive", false),
                        given.flag("reverse", false)));
}

Value reverse_filter(Interpreter& in, const Value& input, const Arguments&) {
  std::vector<Value> items = counted_elements(in, input);
  std::reverse(items.begin(), items.end());
  if (!input.text()) return in.list(std::move(items));
  std::string made;
  for (const Value& item : items) made += *item.text();
  return in.text(std::move(made));
}

Value unique_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> keys, kept;
  for (const Value& item : counted_elements(in, input)) {
    Value key = sort_key(in, item, given.find("attribute"), given.flag("case_sensitive", false));
    in.charge(1 + keys.size());
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& k) { return equal(k, key); })) continue;
    keys.push_back(std::move(key));
    kept.push_back(item);
  }
  return in.list(std::move(kept));
}

Value sum_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("sum", arguments, {"attribute", "start"});
  Value total = given.find("start") ? *given.find("start") : Value(std::int64_t{0});
  for (const Value& item : counted_elements(in, input)) {
    const Value* attribute = given.find("attribute");
    total = arithmetic(in, "+", total, attribute && !attribute->is_none() ? by_path(in, item, *attribute) : item);
  }
  return total;
}

template <bool largest>
Value extreme_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : counted_elements(in, input)) {
    Value key = sort_key(in, item, given.find("attribute"), given.flag("case_sensitive", false));
    if (!best || (largest ? less(best->first, key) : less(key, best->first))) best = {std::move(key), item};
  }
  return best ? best->second : Value(Undefined{"an empty list has no largest and no smallest element"});
}

// The arguments behind the first `count`.
Arguments rest_of(const Arguments& arguments, std::size_t count) {
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin(), rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                               count, rest.positional.size())));
  return rest;
}

std::string known_name(const Value& name, bool test) {
  if (!name.text() || (test ? !is_test(*name.text()) : !is_filter(*name.text()))) {
    fail(ExitCode::data, "there is no ", test ? "test " : "filter ", to_quoted_text(name, 100), " here");
  }
  return *name.text();
}

Value map_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  std::vector<Value> result;
  if (arguments.positional.empty()) {
    const Given given("map", arguments, {"attribute", "default"});
    for (const Value& item : counted_elements(in, input)) {
      Value value = by_path(in, item, given.at("attribute"));
      result.push_back(value.is_undefined() && given.find("default") ? *given.find("default") : std::move(value));
    }
    return in.list(std::move(result));
  }
  const std::string name = known_name(arguments.positional[0], false);
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& item : counted_elements(in, input)) result.push_back(apply_filter(in, name, item, rest));
  return in.list(std::move(result));
}

template <bool attribute, bool keep>
Value choose_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  if (attribute && arguments.positional.empty()) fail(ExitCode::data, "selectattr() asks for an attribute");
  constexpr std::size_t at = attribute ? 1 : 0;
  const bool tests = arguments.positional.size() > at;
  const std::string name = tests ? known_name(arguments.positional[at], true) : std::string();
  const Arguments rest = rest_of(arguments, at + 1);
  std::vector<Value> chosen;
  for (const Value& item : counted_elements(in, input)) {
    const Value value = attribute ? by_path(in, item, arguments.positional[0]) : item;
    const bool fits = tests ? apply_test(in, name, value, rest) : value.truth();
    if (fits == keep) chosen.push_back(item);
  }
  return in.list(std::move(chosen));
}

Value attr_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  return in.attribute(input, Given("attr", arguments, {"name"}).text("name"));
}

Value batch_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("batch", arguments, {"linecount", "fill_with"});
  const std::int64_t size = given.whole("linecount", 0);
  if (size < 1) fail(ExitCode::data, "batch() asks for a size of at least 1");
  std::vector<Value> rows, row;
  for (const Value& item : counted_elements(in, input)) {
    row.push_back(item);
    if (std::ssize(row) < size) continue;
    rows.push_back(in.list(std::exchange(row, {})));
  }
  if (!row.empty()) {
    const Value* fill = given.find("fill_with");
    if (fill && !fill->is_none()) {
      in.charge(static_cast<std::size_t>(size));
      while (std::ssize(row) < size) row.push_back(*fill);
    }
    rows.push_back(in.list(std::move(row)));
  }
  return in.list(std::move(rows));
}

Value groupby_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("groupby", arguments, {"attribute"});
  const Value& attribute = given.at("attribute");
  std::vector<Value> groups, group;
  Value key;
  const auto close = [&] {
    if (!group.empty()) groups.push_back(Value::list({key, in.list(std::exchange(group, {}))}, true));
  };
  for (const Value& item : sorted(in, counted_elements(in, input), &attribute, true, false)) {
    Value own = by_path(in, item, attribute);
    if (!group.empty() && !equal(own, key)) close();
    key = std::move(own);
    group.push_back(item);
  }
  close();
  return in.list(std::move(groups));
}

}  // namespace

const std::vector<NamedFilter>& list_filters() {
  static const std::vector<NamedFilter> list = {
      {"length", length_filter},
      {"count", length_filter},
      {"default", default_filter},
      {"d", default_filter},
      {"first", end_filter<false>},
      {"last", end_filter<true>},
      {"list", list_filter},
      {"join", join_filter},
      {"items", items_filter},
      {"dictsort", dictsort_filter},
      {"sort", sort_filter},
      {"reverse", reverse_filter},
      {"unique", unique_filter},
      {"sum", sum_filter},
      {"min", extreme_filter<false>},
      {"max", extreme_filter<true>},
      {"map", map_filter},
      {"select", choose_filter<false, true>},
      {"reject", choose_filter<false, false>},
      {"selectattr", choose_filter<true, true>},
      {"rejectattr", choose_filter<true, false>},
      {"attr", attr_filter},
      {"batch", batch_filter},
      {"groupby", groupby_filter},
  };
  return list;
}

namespace {

const NamedFilter* find_filter(const std::string& name) {
  for (const auto* list : {&text_filters(), &list_filters()}) {
    for (const NamedFilter& filter : *list) {
      if (filter.name == name) return &filter;
    }
  }
  return nullptr;
}

}  // namespace

bool is_filter(const std::string& name) { return find_filter(name) != nullptr; }

const std::vector<std::string>& filter_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto* list : {&text_filters(), &list_filters()}) {
      for (const NamedFilter& filter : *list) all.emplace_back(filter.name);
    }
    return all;
  }();
  return names;
}

Value apply_filter(Interpreter& in, const std::string& name, const Value& input, const Arguments& arguments) {
  in.charge(1);
  return find_filter(name)->apply(in, input, arguments);
}

}  // namespace satformer::jinja
