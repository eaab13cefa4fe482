// Methods of texts, lists and dicts, and the functions that templates can call.
#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "base/error.h"
#include "base/unicode.h"
#include "jinja/given.h"
#include "jinja/interpreter.h"
#include "jinja/text_tools.h"

namespace satformer::jinja {
namespace {

using TextMethod = Value (*)(Interpreter& in, const std::string& self, const Arguments& arguments);
using DictMethod = Value (*)(Interpreter& in, const Dict& self, const Arguments& arguments);

std::optional<std::string> characters_of(const Given& given) {
  const Value* chars = given.find("chars");
  return chars && !chars->is_none() ? std::optional(given.text("chars")) : std::nullopt;
}

template <bool left, bool right>
Value strip_method(Interpreter& in, const std::string& self, const Arguments& arguments) {
  const Given given("strip", arguments, {"chars"});
  return in.text(std::string(stripped(self, characters_of(given), left, right)));
}

template <bool from_right>
Value split_method(Interpreter& in, const std::string& self, const Arguments& arguments) {
  const Given given("split", arguments, {"sep", "maxsplit"});
  const Value* sep = given.find("sep");
  std::optional<std::string> at;
  if (sep && !sep->is_none()) at = given.text("sep");
  if (at && at->empty()) fail(ExitCode::data, "split(): the separator is empty");
  std::vector<Value> parts;
  for (std::string& part : split_text(self, at, given.whole("maxsplit", -1), from_right)) {
    parts.emplace_back(std::move(part));
  }
  in.charge(self.size() / 64);
  return in.list(std::move(parts));
}

template <bool end>
Value starts_method(Interpreter&, const std::string& self, const Arguments& arguments) {
  const Given given(end ? "endswith" : "startswith", arguments, {"prefix"});
  const auto fits = [&](const Value& value) {
    if (!value.text()) fail(ExitCode::data, end ? "endswith" : "startswith", "() asks for a text");
    return end ? self.ends_with(*value.text()) : self.starts_with(*value.text());
  };
  const Value& prefix = given.at("prefix");
  if (prefix.is_undefined()) fail(ExitCode::data, prefix.get<Undefined>()->why);
  if (const List* list = prefix.list()) return std::any_of(list->items.begin(), list->items.end(), fits);
  return fits(prefix);
}

template <bool from_right>
Value find_method(Interpreter& in, const std::string& self, const Arguments& arguments) {
  const Given given("find", arguments, {"sub"});
  const std::string what = given.text("sub");
  in.charge(self.size() / 64);
  const std::size_t at = from_right ? self.rfind(what) : self.find(what);
  return at == std::string::npos ? std::int64_t{-1} : count_characters(std::string_view(self).substr(0, at));
}

template <bool (*fits)(char32_t)>
Value all_are(Interpreter& in, const std::string& self, const Arguments& arguments) {
  const Given given("this method", arguments, {});
  in.charge(self.size() / 64);
  const auto characters = code_points(self);
  return !characters.empty() && std::all_of(characters.begin(), characters.end(), fits);
}
bool is_digit(char32_t c) { return u_isdigit(static_cast<UChar32>(c)); }
bool is_alphabetic(char32_t c) { return u_isalpha(static_cast<UChar32>(c)); }
bool is_alphanumeric(char32_t c) { return u_isalnum(static_cast<UChar32>(c)); }

template <bool upper>
Value is_cased(Interpreter& in, const std::string& self, const Arguments& arguments) {
  const Given given("this method", arguments, {});
  in.charge(self.size() / 64);
  return (upper ? upper_text(self) : lower_text(self)) == self && upper_text(self) != lower_text(self);
}

constexpr std::pair<std::string_view, TextMethod> text_methods[] = {
    {"strip", strip_method<true, true>},
    {"lstrip", strip_method<true, false>},
    {"rstrip", strip_method<false, true>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"startswith", starts_method<false>},
    {"endswith", starts_method<true>},
    {"find", find_method<false>},
    {"rfind", find_method<true>},
    {"isdigit", all_are<is_digit>},
    {"isalpha", all_are<is_alphabetic>},
    {"isalnum", all_are<is_alphanumeric>},
    {"isspace", all_are<is_unicode_space>},
    {"isupper", is_cased<true>},
    {"islower", is_cased<false>},
    {"upper", [](Interpreter& in, const std::string& s, const Arguments&) { return in.text(upper_text(s)); }},
    {"lower", [](Interpreter& in, const std::string& s, const Arguments&) { return in.text(lower_text(s)); }},
    {"capitalize", [](Interpreter& in, const std::string& s, const Arguments&) { return in.text(capitalised(s)); }},
    {"title", [](Interpreter& in, const std::string& s, const Arguments&) { return in.text(title_text(s, true)); }},
    {"splitlines",
     [](Interpreter& in, const std::string& s, const Arguments& arguments) {
       const Given given("splitlines", arguments, {"keepends"});
       std::vector<Value> lines;
       for (std::string& line : split_lines(s, given.flag("keepends", false))) lines.emplace_back(std::move(line));
       in.charge(s.size() / 64);
       return in.list(std::move(lines));
     }},
    {"replace",
     [](Interpreter& in, const std::string& s, const Arguments& arguments) {
       const Given given("replace", arguments, {"old", "new", "count"});
       const std::string from = given.text("old"), to = given.text("new");
       if (to.size() > 1 && s.size() + 1 > in.limits().text / to.size()) in.charge(in.limits().work);
       return in.text(replaced(s, from, to, given.whole("count", -1)));
     }},
    {"count",
     [](Interpreter& in, const std::string& s, const Arguments& arguments) {
       const Given given("count", arguments, {"sub"});
       const std::string what = given.text("sub");
       in.charge(s.size() / 64);
       std::int64_t count = 0;
       if (what.empty()) return Value(count_characters(s) + 1);
       for (std::size_t at = 0; (at = s.find(what, at)) != std::string::npos; at += what.size()) ++count;
       return Value(count);
     }},
    {"removeprefix",
     [](Interpreter& in, const std::string& s, const Arguments& arguments) {
       const std::string what = Given("removeprefix", arguments, {"prefix"}).text("prefix");
       return in.text(s.starts_with(what) ? s.substr(what.size()) : s);
     }},
    {"removesuffix",
     [](Interpreter& in, const std::string& s, const Arguments& arguments) {
       const std::string what = Given("removesuffix", arguments, {"suffix"}).text("suffix");
       return in.text(s.ends_with(what) ? s.substr(0, s.size() - what.size()) : s);
     }},
    {"join",
     [](Interpreter& in, const std::string& s, const Arguments& arguments) {
       std::string made;
       bool first = true;
       for (const Value& item : elements(Given("join", arguments, {"iterable"}).at("iterable"))) {
         if (!item.text()) fail(ExitCode::data, "join(): '", item.type_name(), "' is no text");
         made += (first ? "" : s) + *item.text();
         first = false;
         in.charge(1 + s.size() / 64);
         if (made.size() > in.limits().text) break;
       }
       return in.text(std::move(made));
     }},
};

constexpr std::pair<std::string_view, DictMethod> dict_methods[] = {
    {"keys",
     [](Interpreter& in, const Dict& self, const Arguments&) {
       std::vector<Value> keys;
       for (const auto& [key, value] : self.items()) keys.emplace_back(key);
       return in.list(std::move(keys));
     }},
    {"values",
     [](Interpreter& in, const Dict& self, const Arguments&) {
       std::vector<Value> values;
       for (const auto& [key, value] : self.items()) values.push_back(value);
       return in.list(std::move(values));
     }},
    {"items",
     [](Interpreter& in, const Dict& self, const Arguments&) {
       std::vector<Value> pairs;
       for (const auto& [key, value] : self.items()) pairs.push_back(Value::list({key, value}, true));
       return in.list(std::move(pairs));
     }},
    {"get",
     [](Interpreter&, const Dict& self, const Arguments& arguments) {
       const Given given("get", arguments, {"key", "default"});
       const Value& key = given.at("key");
       const Value* found = key.text() ? self.find(*key.text()) : nullptr;
       if (found) return *found;
       return given.find("default") ? *given.find("default") : Value();
     }},
};

Value range_function(Interpreter& in, const Arguments& arguments) {
  const Given given("range", arguments, {"start", "stop", "step"});
  const bool one = arguments.positional.size() + arguments.named.size() == 1;
  const std::int64_t start = one ? 0 : given.whole("start", 0);
  const std::int64_t stop = one ? given.whole("start", 0) : given.whole("stop", 0), step = given.whole("step", 1);
  if (step == 0) fail(ExitCode::data, "range(): the step must not be 0");
  constexpr std::size_t most = 100'000;
  std::vector<Value> numbers;
  for (std::int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (numbers.size() >= most) fail(ExitCode::data, "range() has more than ", most, " numbers");
    numbers.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return in.list(std::move(numbers));
}

Dict dict_of(const char* function, const Arguments& arguments) {
  Dict values;
  if (arguments.positional.size() > 1) fail(ExitCode::data, function, "() takes one argument without a name");
  for (const Value& start : arguments.positional) {
    if (!start.dict()) fail(ExitCode::data, function, "() takes a dict, not '", start.type_name(), "'");
    values = *start.dict();
  }
  for (const auto& [name, value] : arguments.named) values.set(name, value);
  return values;
}

Value time_function(Interpreter& in, const Arguments& arguments) {
  const std::string format = Given("strftime_now", arguments, {"format"}).text("format");
  if (format.size() > 200) fail(ExitCode::data, "strftime_now(): the format is too long");
  if (format.empty()) return "";
  std::tm local{};
  const std::time_t now = in.now();
  localtime_r(&now, &local);
  std::array<char, 4096> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), format.c_str(), &local);
  return std::string(text.data(), size);
}

}  // namespace

Value method(const Value& of, const std::string& name) {
  if (of.text()) {
    for (const auto& [known, action] : text_methods) {
      if (known != name) continue;
      return Value::function(name, [of, action = action](Interpreter& in, const Arguments& arguments) {
        return action(in, *of.text(), arguments);
      });
    }
  } else if (of.dict()) {
    for (const auto& [known, action] : dict_methods) {
      if (known != name) continue;
      return Value::function(name, [of, action = action](Interpreter& in, const Arguments& arguments) {
        return action(in, *of.dict(), arguments);
      });
    }
  } else if (of.list() && (name == "index" || name == "count")) {
    return Value::function(name, [of, name](Interpreter& in, const Arguments& arguments) {
      const Value& what = Given(name, arguments, {"value"}).at("value");
      const auto& items = of.list()->items;
      in.charge(items.size());
      if (name == "count") {
        return Value(
            std::int64_t{std::count_if(items.begin(), items.end(), [&](const auto& v) { return equal(v, what); })});
      }
      const auto at = std::find_if(items.begin(), items.end(), [&](const auto& v) { return equal(v, what); });
      if (at == items.end()) fail(ExitCode::data, "index(): the list does not hold this value");
      return Value(std::int64_t{at - items.begin()});
    });
  }
  static constexpr std::string_view changing[] = {"append", "extend",  "insert", "pop",        "remove", "clear",
                                                  "sort",   "reverse", "update", "setdefault", "popitem"};
  if ((of.list() || (of.dict() && !of.dict()->find(name))) &&
      std::find(std::begin(changing), std::end(changing), name) != std::end(changing)) {
    return Value::function(name, [name](Interpreter&, const Arguments&) -> Value {
      fail(ExitCode::data, name, "(): a template must not change lists and dicts");
    });
  }
  return Undefined{};
}

const Dict& global_functions() {
  static const Dict functions = [] {
    Dict all;
    const auto add = [&](const char* name, Value (*action)(Interpreter&, const Arguments&)) {
      all.set(name, Value::function(name, action));
    };
    add("range", range_function);
    add("strftime_now", time_function);
    add("dict", [](Interpreter&, const Arguments& arguments) { return Value::dict(dict_of("dict", arguments)); });
    add("namespace", [](Interpreter& in, const Arguments& arguments) {
      in.charge(4);
      return in.new_namespace(dict_of("namespace", arguments));
    });
    add("raise_exception", [](Interpreter& in, const Arguments& arguments) -> Value {
      const Given given("raise_exception", arguments, {"message"});
      throw Raised(in.shown(given.at("message")));
    });
    return all;
  }();
  return functions;
}

}  // namespace satformer::jinja
