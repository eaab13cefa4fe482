#include "analysis/token_kinds.h"

#include <unicode/uchar.h>
#include <unicode/uregex.h>
#include <unicode/ustring.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "base/unicode.h"

namespace satformer {
namespace {

std::u16string utf16(std::string_view text) {
  std::u16string result;
  for (const char32_t c : code_points(text)) {
    if (c > 0xFFFF) {
      result += static_cast<char16_t>(0xD7C0 + (c >> 10));
      result += static_cast<char16_t>(0xDC00 + (c & 0x3FF));
    } else {
      result += static_cast<char16_t>(c);
    }
  }
  return result;
}

std::string folded(std::string_view text) {
  std::string result;
  for (const char32_t c : code_points(text)) {
    append_utf8(result, static_cast<char32_t>(u_foldCase(static_cast<UChar32>(c), U_FOLD_CASE_DEFAULT)));
  }
  return result;
}

bool is_word(char32_t c) {
  const auto u = static_cast<UChar32>(c);
  return c != 0xFFFD && (u_isalnum(u) || (U_GET_GC_MASK(u) & U_GC_M_MASK) != 0);
}
// May stand between two word characters.
bool joins_words(char32_t c) { return c == '\'' || c == 0x2019 || c == '-' || c == '_'; }

// End of a tag or entity that begins at `begin`, or `begin`.
std::size_t markup_end(std::string_view text, std::size_t begin) {
  constexpr std::size_t longest_tag = 200, longest_entity = 12;
  const auto at = [&](std::size_t i) { return i < text.size() ? text[i] : '\0'; };
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text[begin] == '<' && (letter(at(begin + 1)) || at(begin + 1) == '/' || at(begin + 1) == '!')) {
    for (std::size_t i = begin + 1; i < text.size() && i < begin + longest_tag; ++i) {
      if (text[i] == '>') return i + 1;
      if (text[i] == '<' || text[i] == '\n') break;
    }
  }
  if (text[begin] == '&') {
    for (std::size_t i = begin + 1; i < text.size() && i < begin + longest_entity; ++i) {
      if (text[i] == ';') return i > begin + 1 ? i + 1 : begin;
      if (!letter(text[i]) && text[i] != '#' && !(text[i] >= '0' && text[i] <= '9')) break;
    }
  }
  return begin;
}

std::size_t unit_end(std::string_view text, std::size_t begin) {
  const auto next = [&](std::size_t i) { return first_code_point(text.substr(i)); };
  const CodePoint first = next(begin);
  std::size_t end = begin + first.size;
  if (const std::size_t markup = markup_end(text, begin); markup > begin) return markup;
  if (is_unicode_space(first.value)) {
    while (end < text.size() && is_unicode_space(next(end).value)) end += next(end).size;
  } else if (is_word(first.value)) {
    while (end < text.size()) {
      const CodePoint c = next(end);
      if (is_word(c.value)) {
        end += c.size;
      } else if (joins_words(c.value) && end + c.size < text.size() && is_word(next(end + c.size).value)) {
        end += c.size;
      } else {
        break;
      }
    }
  } else {
    while (end < text.size() && next(end).value == first.value && markup_end(text, end) == end) end += next(end).size;
  }
  return end;
}

// A compiled regular expression whose search is bounded in time and stack.
class Pattern {
 public:
  Pattern(const std::string& pattern, const std::string& where) {
    const std::u16string text = utf16(pattern);
    UParseError place{};
    UErrorCode status = U_ZERO_ERROR;
    regex_ = uregex_open(text.c_str(), static_cast<std::int32_t>(text.size()), 0, &place, &status);
    if (U_FAILURE(status)) {
      fail(ExitCode::config, where, ": the pattern '", pattern, "' is no regular expression (", u_errorName(status),
           place.offset >= 0 ? concat(" at character ", place.offset + 1) : std::string(), ")");
    }
    constexpr std::int32_t time_limit = 1000;  // ICU's steps, some milliseconds
    uregex_setTimeLimit(regex_, time_limit, &status);
  }
  ~Pattern() { uregex_close(regex_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  // A search that takes too long has found nothing.
  bool found_in(const std::u16string& text) {
    UErrorCode status = U_ZERO_ERROR;
    uregex_setText(regex_, text.c_str(), static_cast<std::int32_t>(text.size()), &status);
    const bool found = uregex_find(regex_, 0, &status);
    return U_SUCCESS(status) && found;
  }

 private:
  URegularExpression* regex_ = nullptr;
};

struct Rule {
  std::uint8_t kind = 0;
  std::unordered_set<std::string> words;
  std::unique_ptr<Pattern> pattern;
};

class RuleKinds : public TokenKinds {
 public:
  RuleKinds(const Tokenizer& tokenizer, const Json& json, const std::string& origin) : tokenizer_(tokenizer) {
    const std::vector<std::string> keys = {"kinds", "rules", "otherwise", "special"};
    if (!json.is_object()) fail(ExitCode::config, origin, ": expected an object with 'rules' and 'otherwise'");
    for (const auto& [key, value] : json.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        fail(ExitCode::config, origin, ": unknown key '", key, "'.", did_you_mean(key, keys));
      }
    }
    if (json.contains("kinds")) {
      for (const std::string& name : strings(json["kinds"], origin + ": 'kinds'")) {
        if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
          fail(ExitCode::config, origin, ": 'kinds' names '", name, "' twice");
        }
        add_kind(name, origin);
      }
      fixed_ = true;
    }
    if (!json.contains("rules") || !json["rules"].is_array()) {
      fail(ExitCode::config, origin, ": 'rules' must be a list of objects");
    }
    for (const Json& rule : json["rules"]) add_rule(rule, concat(origin, ": rule ", rules_.size() + 1));
    if (!json.contains("otherwise")) {
      fail(ExitCode::config, origin, ": 'otherwise', the kind of words that no rule fits, is missing");
    }
    otherwise_ = kind_of(json["otherwise"], origin + ": 'otherwise'");
    special_ = json.contains("special") ? kind_of(json["special"], origin + ": 'special'") : otherwise_;
  }

  const std::vector<std::string>& names() const override { return names_; }

  std::vector<std::uint8_t> of(std::int64_t, std::span<const std::int64_t> tokens) override {
    std::string text;
    std::vector<std::size_t> ends;
    for (const std::int64_t id : tokens) {
      text += tokenizer_.token_bytes(static_cast<std::int32_t>(id), false);
      ends.push_back(text.size());
    }
    const std::vector<std::size_t> units = text_units(text);
    std::vector<std::uint8_t> kinds;
    std::size_t begin = 0, unit = 0;
    for (const std::size_t end : ends) {
      kinds.push_back(begin == end ? special_ : kind_of_token(text, units, unit, begin, end));
      begin = end;
      while (unit < units.size() && units[unit] <= begin) ++unit;
    }
    return kinds;
  }

 private:
  static std::vector<std::string> strings(const Json& json, const std::string& where) {
    if (!json.is_array()) fail(ExitCode::config, where, " must be a list of texts");
    std::vector<std::string> list;
    for (const Json& item : json) {
      if (!item.is_string()) fail(ExitCode::config, where, " must hold texts only, not ", item.dump());
      list.push_back(item.get<std::string>());
    }
    return list;
  }

  std::uint8_t add_kind(const std::string& name, const std::string& where) {
    if (name.empty() || name.find_first_of("/,@+=") != std::string::npos) {
      fail(ExitCode::config, where, ": '", name, "' cannot name a kind: it is empty or holds one of / , @ + =");
    }
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found != names_.end()) return static_cast<std::uint8_t>(found - names_.begin());
    if (names_.size() == 32) fail(ExitCode::config, where, ": more than 32 kinds");
    names_.push_back(name);
    return static_cast<std::uint8_t>(names_.size() - 1);
  }

  std::uint8_t kind_of(const Json& json, const std::string& where) {
    if (!json.is_string()) fail(ExitCode::config, where, " must be the name of a kind");
    const auto name = json.get<std::string>();
    if (fixed_ && std::find(names_.begin(), names_.end(), name) == names_.end()) {
      fail(ExitCode::config, where, ": '", name, "' is not one of 'kinds'.", did_you_mean(name, names_));
    }
    return add_kind(name, where);
  }

  void add_rule(const Json& json, const std::string& where) {
    const std::vector<std::string> keys = {"kind", "words", "pattern"};
    if (!json.is_object()) fail(ExitCode::config, where, " must be an object");
    for (const auto& [key, value] : json.items()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        fail(ExitCode::config, where, ": unknown key '", key, "'.", did_you_mean(key, keys));
      }
    }
    if (!json.contains("kind")) fail(ExitCode::config, where, ": 'kind' is missing");
    if (json.contains("words") == json.contains("pattern")) {
      fail(ExitCode::config, where, " needs either 'words' or 'pattern'");
    }
    Rule rule;
    rule.kind = kind_of(json["kind"], where + ": 'kind'");
    if (json.contains("words")) {
      for (const std::string& word : strings(json["words"], where + ": 'words'")) rule.words.insert(folded(word));
    } else {
      if (!json["pattern"].is_string()) fail(ExitCode::config, where, ": 'pattern' must be a text");
      rule.pattern = std::make_unique<Pattern>(json["pattern"].get<std::string>(), where);
    }
    rules_.push_back(std::move(rule));
  }

  std::uint8_t kind_of_unit(std::string_view unit) {
    const auto [entry, added] = known_.try_emplace(std::string(unit), otherwise_);
    if (!added) return entry->second;
    const std::string key = folded(unit);
    const std::u16string wide = utf16(unit);
    for (Rule& rule : rules_) {
      if (rule.pattern ? rule.pattern->found_in(wide) : rule.words.contains(key)) return entry->second = rule.kind;
    }
    return entry->second;
  }

  // `unit` is the first one that ends after `begin`.
  std::uint8_t kind_of_token(std::string_view text, const std::vector<std::size_t>& units, std::size_t unit,
                             std::size_t begin, std::size_t end) {
    std::size_t best = unit, best_bytes = 0;
    for (; unit < units.size(); ++unit) {
      const std::size_t unit_begin = unit == 0 ? 0 : units[unit - 1];
      if (unit_begin >= end) break;
      const bool space = is_unicode_space(first_code_point(text.substr(unit_begin)).value);
      const std::size_t bytes = std::min(end, units[unit]) - std::max(begin, unit_begin);
      if (!space && bytes > best_bytes) {
        best = unit;
        best_bytes = bytes;
      }
    }
    const std::size_t unit_begin = best == 0 ? 0 : units[best - 1];
    return kind_of_unit(text.substr(unit_begin, units[best] - unit_begin));
  }

  const Tokenizer& tokenizer_;
  std::vector<std::string> names_;
  bool fixed_ = false;
  std::vector<Rule> rules_;
  std::uint8_t otherwise_ = 0, special_ = 0;
  std::unordered_map<std::string, std::uint8_t> known_;
};

constexpr const char* function_words =
    "a an the this that these those each every either neither some any no all both half such what which whose who "
    "whom whoever whatever whichever i me my mine myself you your yours yourself yourselves he him his himself she "
    "her hers herself it its itself we us our ours ourselves they them their theirs themselves one ones oneself thou "
    "thee thy thine ye someone somebody something anyone anybody anything everyone everybody everything noone nobody "
    "nothing none other others another "
    "am is are was were be been being have has had having do does did doing done will would shall should can could "
    "may might must ought need dare used hath doth art wast wert "
    "i'm you're he's she's it's we're they're i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll "
    "he'll she'll we'll they'll isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't "
    "wouldn't "
    "shan't shouldn't can't cannot couldn't mustn't that's who's what's here's there's where's let's "
    "about above across after against along amid among amongst around as at before behind below beneath beside "
    "besides between beyond but by concerning despite down during except for from in inside into like near of off on "
    "onto out outside over past per regarding round since than through throughout till to toward towards under "
    "underneath until unto up upon via with within without "
    "and or nor so yet if whether because although though while whereas unless when whenever where wherever how why "
    "whence whither lest provided "
    "not n't never there here then thus hence therefore however also too very just only even else rather quite again "
    "ever still already almost much many more most few fewer little less least several enough own same "
    "whereby wherein whereof wherewith thereby therein thereof therewith thereto hereby herein hereof";

}  // namespace

std::vector<std::size_t> text_units(std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t begin = 0; begin < text.size(); begin = ends.back()) ends.push_back(unit_end(text, begin));
  return ends;
}

std::unique_ptr<TokenKinds> make_rule_kinds(const Tokenizer& tokenizer, const Json& rules,
                                            const std::string& origin) {
  return std::make_unique<RuleKinds>(tokenizer, rules, origin);
}

Json default_kind_rules() {
  Json structural, functional, rules;
  structural["kind"] = "structural";
  structural["pattern"] = R"(^[^\p{L}\p{N}]+$|^<.*>$|^&.*;$)";
  functional["kind"] = "functional";
  functional["words"] = split_at_space(function_words);
  rules["kinds"] = Json::array({"semantic", "structural", "functional"});
  rules["rules"] = Json::array({structural, functional});
  rules["otherwise"] = "semantic";
  rules["special"] = "structural";
  return rules;
}

}  // namespace satformer
