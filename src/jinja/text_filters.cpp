// Filters that make or change texts and numbers.
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/unicode.h"
#include "jinja/filters.h"
#include "jinja/given.h"
#include "jinja/text_tools.h"

namespace satformer::jinja {
namespace {

Value trim_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("trim", arguments, {"chars"});
  const Value* chars = given.find("chars");
  const std::string text = in.shown(input);
  return in.text(
      std::string(stripped(text, chars && !chars->is_none() ? std::optional(given.text("chars")) : std::nullopt)));
}

Value tojson_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = given.flag("ensure_ascii", false);
  style.sort_keys = given.flag("sort_keys", false);
  if (const Value* indent = given.find("indent"); indent && !indent->is_none()) {
    style.indent =
        indent->text()
            ? *indent->text()
            : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(given.whole("indent", 0), 0, 32)), ' ');
    if (style.indent->size() > 32) fail(ExitCode::data, "tojson(): the indent is too long");
    style.item_separator = ",";
  }
  if (const Value* separators = given.find("separators"); separators && !separators->is_none()) {
    const List* list = separators->list();
    if (!list || list->items.size() != 2 || !list->items[0].text() || !list->items[1].text()) {
      fail(ExitCode::data, "tojson(): 'separators' must be two texts");
    }
    style.item_separator = *list->items[0].text();
    style.key_separator = *list->items[1].text();
  }
  if (input.is_undefined()) fail(ExitCode::data, "tojson: ", input.get<Undefined>()->why);
  return in.text(to_json_text(input, style, in.limits().text));
}

Value replace_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("replace", arguments, {"old", "new", "count"});
  const std::string text = in.shown(input), from = in.shown(given.at("old")), to = in.shown(given.at("new"));
  if (to.size() > 1 && text.size() + 1 > in.limits().text / to.size()) in.charge(in.limits().work);
  return in.text(replaced(text, from, to, given.whole("count", -1)));
}

Value indent_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  const Given given("indent", arguments, {"width", "first", "blank"});
  const Value* width = given.find("width");
  const std::string prefix =
      width && width->text()
          ? *width->text()
          : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(given.whole("width", 4), 0, 1000)), ' ');
  const std::string text = in.shown(input) + "\n";
  const bool blank = given.flag("blank", false);
  const std::vector<std::string> lines = split_lines(text, false);
  std::string made;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) made += '\n';
    if (i > 0 ? blank || !lines[i].empty() : given.flag("first", false)) made += prefix;
    made += lines[i];
    in.charge(1 + prefix.size() / 64);
  }
  return in.text(std::move(made));
}

Value int_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Given given("int", arguments, {"default", "base"});
  const Value otherwise = given.find("default") ? *given.find("default") : Value(std::int64_t{0});
  if (const auto whole = input.integer()) return *whole;
  if (const auto* number = input.get<double>()) {
    return std::abs(*number) < 9e18 ? Value(static_cast<std::int64_t>(*number)) : otherwise;
  }
  if (!input.text()) return otherwise;
  std::string_view text = strip(*input.text());
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  const std::int64_t base = given.whole("base", 10);
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  if (base < 2 || base > 36) return otherwise;
  std::int64_t whole = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), whole, static_cast<int>(base));
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && !(plus && text.starts_with('-')))
    return whole;
  double number = 0;
  const auto real = std::from_chars(text.data(), text.data() + text.size(), number);
  if (real.ec != std::errc() || real.ptr != text.data() + text.size() || !(std::abs(number) < 9e18)) return otherwise;
  return static_cast<std::int64_t>(number);
}

Value float_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Given given("float", arguments, {"default"});
  const Value otherwise = given.find("default") ? *given.find("default") : Value(0.0);
  if (input.is_number()) return input.number();
  if (!input.text()) return otherwise;
  const std::string_view text = strip(*input.text());
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? Value(number) : otherwise;
}

Value round_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const Given given("round", arguments, {"precision", "method"});
  if (!input.is_number()) fail(ExitCode::data, "round: '", input.type_name(), "' is no number");
  const std::string method = given.text("method", "common");
  const double scale =
      std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(given.whole("precision", 0), -300, 300)));
  const double scaled = input.number() * scale;
  if (input.integer() && method == "common") return input;
  if (method == "common") return std::nearbyint(scaled) / scale;
  if (method == "ceil") return std::ceil(scaled) / scale;
  if (method == "floor") return std::floor(scaled) / scale;
  fail(ExitCode::data, "round(): the method must be common, ceil or floor");
}

Value abs_filter(Interpreter&, const Value& input, const Arguments&) {
  if (const auto whole = input.integer(); whole && *whole != INT64_MIN) return *whole < 0 ? -*whole : *whole;
  if (!input.is_number()) fail(ExitCode::data, "abs: '", input.type_name(), "' is no number");
  return std::abs(input.number());
}

Value escape_filter(Interpreter& in, const Value& input, const Arguments&) {
  std::string made;
  for (const char c : in.shown(input)) {
    switch (c) {
      case '&':
        made += "&amp;";
        break;
      case '<':
        made += "&lt;";
        break;
      case '>':
        made += "&gt;";
        break;
      case '"':
        made += "&#34;";
        break;
      case '\'':
        made += "&#39;";
        break;
      default:
        made += c;
    }
  }
  return in.text(std::move(made));
}

template <std::string (*change)(std::string_view)>
Value changed_text(Interpreter& in, const Value& input, const Arguments&) {
  return in.text(change(in.shown(input)));
}
std::string words_with_capitals(std::string_view text) { return title_text(text, false); }

Value string_filter(Interpreter& in, const Value& input, const Arguments&) { return in.text(in.shown(input)); }
Value wordcount_filter(Interpreter& in, const Value& input, const Arguments&) {
  std::int64_t count = 0;
  bool inside = false;
  for (const char32_t c : code_points(in.shown(input))) {
    const bool letter = c == '_' || u_isalnum(static_cast<UChar32>(c));
    count += letter && !inside ? 1 : 0;
    inside = letter;
  }
  return count;
}
Value format_filter(Interpreter& in, const Value& input, const Arguments& arguments) {
  return arithmetic(in, "%", in.shown(input), Value::list(arguments.positional, true));
}

}  // namespace

const std::vector<NamedFilter>& text_filters() {
  static const std::vector<NamedFilter> list = {
      {"trim", trim_filter},
      {"tojson", tojson_filter},
      {"upper", changed_text<upper_text>},
      {"lower", changed_text<lower_text>},
      {"capitalize", changed_text<capitalised>},
      {"title", changed_text<words_with_capitals>},
      {"string", string_filter},
      {"replace", replace_filter},
      {"indent", indent_filter},
      {"int", int_filter},
      {"float", float_filter},
      {"round", round_filter},
      {"abs", abs_filter},
      {"escape", escape_filter},
      {"e", escape_filter},
      {"safe", string_filter},
      {"wordcount", wordcount_filter},
      {"format", format_filter},
  };
  return list;
}

}  // namespace satformer::jinja
