// Values as texts: as Python prints them, and as JSON.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/unicode.h"
#include "jinja/value.h"

namespace satformer::jinja {
namespace {

// The shortest digits that give the number back, in Python's notation.
std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::scientific);
  const std::string scientific(digits.data(), end.ptr);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return scientific;
  const auto fixed = std::to_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  std::string text(digits.data(), fixed.ptr);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

void append_escaped(std::string& out, const char* format, unsigned code) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, code);
  out += text.data();
}

class TextWriter {
 public:
  explicit TextWriter(std::size_t limit) : limit_(limit) {}
  std::string& text() { return out_; }

  void quoted(const std::string& text) {
    const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
    out_ += quote;
    for (std::string_view rest = text; !rest.empty();) {
      const CodePoint c = first_code_point(rest);
      if (c.value == static_cast<unsigned char>(quote) || c.value == '\\') {
        out_ += '\\';
        out_ += static_cast<char>(c.value);
      } else if (c.value == '\n') {
        out_ += "\\n";
      } else if (c.value == '\r') {
        out_ += "\\r";
      } else if (c.value == '\t') {
        out_ += "\\t";
      } else if (c.value < 0x20 || (c.value >= 0x7F && c.value < 0xA1) || c.value == 0xAD) {
        append_escaped(out_, "\\x%02x", static_cast<unsigned>(c.value));
      } else {
        out_ += rest.substr(0, c.size);
      }
      rest.remove_prefix(c.size);
    }
    out_ += quote;
    check();
  }

  void plain(const Value& value, bool quote, int depth = 0) {
    if (const auto* text = value.text()) {
      quote ? quoted(*text) : void(out_ += *text);
    } else if (value.is_undefined()) {
      out_ += quote ? "Undefined" : "";
    } else if (value.is_none()) {
      out_ += "None";
    } else if (const auto* flag = value.get<bool>()) {
      out_ += *flag ? "True" : "False";
    } else if (const auto* whole = value.get<std::int64_t>()) {
      out_ += std::to_string(*whole);
    } else if (const auto* number = value.get<double>()) {
      out_ += number_text(*number);
    } else if (const List* list = value.list()) {
      out_ += list->tuple ? '(' : '[';
      for (std::size_t i = 0; i < list->items.size(); ++i) {
        if (i > 0) out_ += ", ";
        plain(list->items[i], true, depth + 1);
      }
      if (list->tuple && list->items.size() == 1) out_ += ',';
      out_ += list->tuple ? ')' : ']';
    } else if (const Dict* dict = value.dict()) {
      pairs(*dict, depth);
    } else if (const Function* function = value.function()) {
      out_ += "<function " + function->name + ">";
    } else if (depth > 8) {  // a namespace may hold itself
      out_ += "<Namespace ...>";
    } else {
      out_ += "<Namespace ";
      pairs(value.name_space()->values, depth);
      out_ += '>';
    }
    check();
  }

 private:
  void pairs(const Dict& dict, int depth) {
    out_ += '{';
    bool first = true;
    for (const auto& [key, item] : dict.items()) {
      if (!first) out_ += ", ";
      first = false;
      quoted(key);
      out_ += ": ";
      plain(item, true, depth + 1);
    }
    out_ += '}';
  }
  void check() const {
    if (out_.size() > limit_) fail(ExitCode::data, "a text becomes longer than ", limit_, " bytes");
  }
  std::size_t limit_;
  std::string out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, std::size_t limit) : style_(style), limit_(limit) {}
  std::string& text() { return out_; }

  void value(const Value& value) {
    if (const auto* text = value.text()) {
      quoted(*text);
    } else if (value.is_none()) {
      out_ += "null";
    } else if (const auto* flag = value.get<bool>()) {
      out_ += *flag ? "true" : "false";
    } else if (const auto* whole = value.get<std::int64_t>()) {
      out_ += std::to_string(*whole);
    } else if (const auto* number = value.get<double>()) {
      out_ += std::isnan(*number)   ? "NaN"
              : std::isinf(*number) ? (*number > 0 ? "Infinity" : "-Infinity")
                                    : number_text(*number);
    } else if (const List* list = value.list()) {
      between('[', ']', list->items.size(), [&](std::size_t i) { this->value(list->items[i]); });
    } else if (const Dict* dict = value.dict()) {
      std::vector<const std::pair<std::string, Value>*> items;
      for (const auto& item : dict->items()) items.push_back(&item);
      if (style_.sort_keys) {
        std::stable_sort(items.begin(), items.end(),
                         [](const auto* a, const auto* b) { return a->first < b->first; });
      }
      between('{', '}', items.size(), [&](std::size_t i) {
        quoted(items[i]->first);
        out_ += style_.key_separator;
        this->value(items[i]->second);
      });
    } else {
      fail(ExitCode::data, "tojson: '", value.type_name(), "' cannot be written as JSON");
    }
    if (out_.size() > limit_) fail(ExitCode::data, "a text becomes longer than ", limit_, " bytes");
  }

 private:
  template <class Each>
  void between(char open, char close, std::size_t count, const Each& each) {
    out_ += open;
    ++depth_;
    for (std::size_t i = 0; i < count; ++i) {
      if (i > 0) out_ += style_.item_separator;
      new_line();
      each(i);
    }
    --depth_;
    if (count > 0) new_line();
    out_ += close;
  }
  void new_line() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < depth_; ++i) out_ += *style_.indent;
  }
  void quoted(const std::string& text) {
    out_ += '"';
    for (std::string_view rest = text; !rest.empty();) {
      const CodePoint c = first_code_point(rest);
      switch (c.value) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\b':
          out_ += "\\b";
          break;
        case '\f':
          out_ += "\\f";
          break;
        default:
          if (c.value < 0x20 || (style_.ascii && c.value >= 0x7F && c.value < 0x10000 && c.value != 0x7F)) {
            append_escaped(out_, "\\u%04x", static_cast<unsigned>(c.value));
          } else if (style_.ascii && c.value >= 0x10000) {
            const auto high = static_cast<unsigned>(c.value) - 0x10000;
            append_escaped(out_, "\\u%04x", 0xD800 + (high >> 10));
            append_escaped(out_, "\\u%04x", 0xDC00 + (high & 0x3FF));
          } else {
            out_ += rest.substr(0, c.size);
          }
      }
      rest.remove_prefix(c.size);
    }
    out_ += '"';
  }
  const JsonStyle& style_;
  std::size_t limit_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string to_text(const Value& value, std::size_t limit) {
  TextWriter writer(limit);
  writer.plain(value, false);
  return std::move(writer.text());
}

std::string to_quoted_text(const Value& value, std::size_t limit) {
  TextWriter writer(limit);
  writer.plain(value, true);
  return std::move(writer.text());
}

std::string to_json_text(const Value& value, const JsonStyle& style, std::size_t limit) {
  JsonWriter writer(style, limit);
  writer.value(value);
  return std::move(writer.text());
}

}  // namespace satformer::jinja
