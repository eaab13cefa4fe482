#include "jinja/value.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/unicode.h"

namespace satformer::jinja {
namespace {

constexpr int most_depth = 100;
constexpr std::size_t few_keys = 16;  // up to these they are looked at one by one

int checked_depth(int depth) {
  if (depth > most_depth) fail(ExitCode::data, "lists and dicts lie in one another more than ", most_depth, " deep");
  return depth;
}

}  // namespace

const Value* Dict::find(std::string_view key) const {
  if (order_.empty()) {
    for (const auto& [name, value] : items_) {
      if (name == key) return &value;
    }
    return nullptr;
  }
  const auto at = std::lower_bound(order_.begin(), order_.end(), key,
                                   [this](std::size_t i, std::string_view k) { return items_[i].first < k; });
  return at != order_.end() && items_[*at].first == key ? &items_[*at].second : nullptr;
}

void Dict::set(std::string key, Value value) {
  depth = checked_depth(std::max(depth, value.depth() + 1));
  if (const Value* found = find(key)) {
    *const_cast<Value*>(found) = std::move(value);
    return;
  }
  items_.emplace_back(std::move(key), std::move(value));
  const auto before = [this](std::size_t a, std::size_t b) { return items_[a].first < items_[b].first; };
  if (!order_.empty()) {
    order_.insert(std::upper_bound(order_.begin(), order_.end(), items_.size() - 1, before), items_.size() - 1);
  } else if (items_.size() > few_keys) {
    for (std::size_t i = 0; i < items_.size(); ++i) order_.push_back(i);
    std::sort(order_.begin(), order_.end(), before);
  }
}

void Dict::clear() {
  items_.clear();
  order_.clear();
}

Value Value::list(std::vector<Value> items, bool tuple) {
  int depth = 1;
  for (const Value& item : items) depth = std::max(depth, item.depth() + 1);
  Value value;
  value.value_ = std::make_shared<const List>(List{std::move(items), tuple, checked_depth(depth)});
  return value;
}

Value Value::dict(Dict values) {
  Value value;
  value.value_ = std::make_shared<const Dict>(std::move(values));
  return value;
}

Value Value::function(std::string name, std::function<Value(Interpreter&, const Arguments&)> call) {
  Value value;
  value.value_ = std::make_shared<const Function>(Function{std::move(name), std::move(call)});
  return value;
}

Value Value::from_json(const Json& json, int above) {
  checked_depth(above);
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) {
    const bool large = json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX;
    return large ? Value(json.get<double>()) : Value(json.get<std::int64_t>());
  }
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const Json& item : json) items.push_back(from_json(item, above + 1));
    return list(std::move(items));
  }
  if (json.is_object()) {
    Dict values;
    for (const auto& [key, item] : json.items()) values.set(key, from_json(item, above + 1));
    return dict(std::move(values));
  }
  return None();
}

const std::string* Value::text() const {
  const auto* found = get<std::shared_ptr<const std::string>>();
  return found ? found->get() : nullptr;
}
const List* Value::list() const {
  const auto* found = get<std::shared_ptr<const List>>();
  return found ? found->get() : nullptr;
}
const Dict* Value::dict() const {
  const auto* found = get<std::shared_ptr<const Dict>>();
  return found ? found->get() : nullptr;
}
const Function* Value::function() const {
  const auto* found = get<std::shared_ptr<const Function>>();
  return found ? found->get() : nullptr;
}
Namespace* Value::name_space() const {
  const auto* found = get<std::shared_ptr<Namespace>>();
  return found ? found->get() : nullptr;
}

bool Value::is_number() const { return get<bool>() || get<std::int64_t>() || get<double>(); }

std::optional<std::int64_t> Value::integer() const {
  if (const auto* v = get<std::int64_t>()) return *v;
  if (const auto* v = get<bool>()) return *v ? 1 : 0;
  return std::nullopt;
}

double Value::number() const {
  if (const auto* v = get<double>()) return *v;
  return static_cast<double>(integer().value_or(0));
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  if (const auto* v = text()) return !v->empty();
  if (const List* v = list()) return !v->items.empty();
  if (const Dict* v = dict()) return v->size() > 0;
  return true;
}

std::string Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (get<bool>()) return "bool";
  if (get<std::int64_t>()) return "int";
  if (get<double>()) return "float";
  if (text()) return "str";
  if (const List* v = list()) return v->tuple ? "tuple" : "list";
  if (dict()) return "dict";
  return function() ? "function" : "Namespace";
}

int Value::depth() const {
  if (const List* v = list()) return v->depth;
  if (const Dict* v = dict()) return v->depth;
  return 0;
}

namespace {

// Lists can hold one list many times over, so the pairs that are compared have a number.
class Comparison {
 public:
  bool equal(const Value& a, const Value& b) {
    spend();
    if (a.is_number() && b.is_number()) {
      const auto x = a.integer(), y = b.integer();
      return x && y ? *x == *y : a.number() == b.number();
    }
    if (a.text() && b.text()) return *a.text() == *b.text();
    if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
    if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
    if (const List* x = a.list(), *y = b.list(); x && y) {
      return x == y ||
             (x->tuple == y->tuple && std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(),
                                                 [this](const Value& i, const Value& j) { return equal(i, j); }));
    }
    if (const Dict* x = a.dict(), *y = b.dict(); x && y) {
      if (x == y) return true;
      if (x->size() != y->size()) return false;
      return std::all_of(x->items().begin(), x->items().end(), [&](const auto& item) {
        const Value* other = y->find(item.first);
        return other && equal(item.second, *other);
      });
    }
    if (a.function() && b.function()) return a.function() == b.function();
    return a.name_space() && a.name_space() == b.name_space();
  }

  bool less(const Value& a, const Value& b) {
    spend();
    if (a.is_undefined() || b.is_undefined()) {
      const auto* missing = a.is_undefined() ? a.get<Undefined>() : b.get<Undefined>();
      fail(ExitCode::data, missing->why);
    }
    if (a.is_number() && b.is_number()) {
      const auto x = a.integer(), y = b.integer();
      return x && y ? *x < *y : a.number() < b.number();
    }
    if (a.text() && b.text()) return *a.text() < *b.text();
    if (const List* x = a.list(), *y = b.list(); x && y) {
      const std::size_t both = std::min(x->items.size(), y->items.size());
      for (std::size_t i = 0; i < both; ++i) {
        if (!equal(x->items[i], y->items[i])) return less(x->items[i], y->items[i]);
      }
      return x->items.size() < y->items.size();
    }
    fail(ExitCode::data, "'", a.type_name(), "' and '", b.type_name(), "' have no order");
  }

 private:
  void spend() {
    if (++spent_ > 1'000'000) fail(ExitCode::data, "there is too much to compare");
  }
  int spent_ = 0;
};

}  // namespace

bool equal(const Value& a, const Value& b) { return Comparison().equal(a, b); }
bool less(const Value& a, const Value& b) { return Comparison().less(a, b); }

bool contains(const Value& container, const Value& item) {
  if (const std::string* text = container.text()) {
    if (!item.text()) fail(ExitCode::data, "'in' a text asks for a text, not '", item.type_name(), "'");
    return text->find(*item.text()) != std::string::npos;
  }
  if (const Dict* dict = container.dict()) return item.text() && dict->find(*item.text());
  if (const List* list = container.list()) {
    return std::any_of(list->items.begin(), list->items.end(), [&](const Value& v) { return equal(v, item); });
  }
  if (container.is_undefined()) return false;
  fail(ExitCode::data, "'", container.type_name(), "' holds nothing that 'in' could find");
}

std::vector<Value> elements(const Value& value) {
  if (const List* list = value.list()) return list->items;
  std::vector<Value> items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items()) items.emplace_back(key);
  } else if (const std::string* text = value.text()) {
    for (std::string_view rest = *text; !rest.empty();) {
      const std::size_t size = first_code_point(rest).size;
      items.emplace_back(std::string(rest.substr(0, size)));
      rest.remove_prefix(size);
    }
  } else if (!value.is_undefined()) {
    fail(ExitCode::data, "'", value.type_name(), "' has no elements");
  }
  return items;
}

std::int64_t length(const Value& value) {
  if (const List* list = value.list()) return std::ssize(list->items);
  if (const Dict* dict = value.dict()) return static_cast<std::int64_t>(dict->size());
  if (const std::string* text = value.text()) return count_characters(*text);
  if (value.is_undefined()) return 0;
  fail(ExitCode::data, "'", value.type_name(), "' has no length");
}

}  // namespace satformer::jinja
