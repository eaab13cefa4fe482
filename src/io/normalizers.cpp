#include "io/normalizers.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/unicode.h"
#include "io/text_parts.h"
#include "io/word_patterns.h"

namespace satformer {
namespace {

using RawJson = nlohmann::json;

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
}

std::string type_of(const RawJson& json, const std::string& origin, const char* what) {
  if (!json.is_object() || !json.contains("type") || !json["type"].is_string()) {
    fail(ExitCode::data, origin, ": a ", what, " without \"type\"");
  }
  return json["type"].get<std::string>();
}

bool flag_of(const RawJson& json, const char* key, bool otherwise) {
  return json.contains(key) && json[key].is_boolean() ? json[key].get<bool>() : otherwise;
}

std::string text_of(const RawJson& json, const char* key, const std::string& origin) {
  if (!json.contains(key) || !json[key].is_string()) fail(ExitCode::data, origin, ": \"", key, "\" must be a text");
  return json[key].get<std::string>();
}

// {"String": ...} or {"Regex": ...}
std::unique_ptr<WordPattern> pattern_of(const RawJson& json, const std::string& origin) {
  if (json.contains("pattern")) {
    const RawJson& pattern = json["pattern"];
    if (pattern.contains("String")) return make_literal_pattern(text_of(pattern, "String", origin));
    if (pattern.contains("Regex")) return make_word_pattern(text_of(pattern, "Regex", origin), origin);
  }
  fail(ExitCode::data, origin, ": \"pattern\" must hold \"String\" or \"Regex\"");
}

class UnicodeForm : public Normalizer {
 public:
  UnicodeForm(const std::string& name, const std::string& origin) {
    UErrorCode error = U_ZERO_ERROR;
    form_ = name == "NFC"    ? icu::Normalizer2::getNFCInstance(error)
            : name == "NFD"  ? icu::Normalizer2::getNFDInstance(error)
            : name == "NFKC" ? icu::Normalizer2::getNFKCInstance(error)
                             : icu::Normalizer2::getNFKDInstance(error);
    if (U_FAILURE(error)) fail(ExitCode::system, origin, ": no data for ", name, ": ", u_errorName(error));
  }
  std::string apply(std::string text) const override {
    if (is_ascii(text)) return text;
    UErrorCode error = U_ZERO_ERROR;
    if (form_->isNormalizedUTF8(text, error) && U_SUCCESS(error)) return text;
    std::string result;
    icu::StringByteSink<std::string> sink(&result);
    error = U_ZERO_ERROR;
    form_->normalizeUTF8(0, text, sink, nullptr, error);
    return U_SUCCESS(error) ? result : text;
  }

 private:
  const icu::Normalizer2* form_;
};

class Lowercase : public Normalizer {
 public:
  std::string apply(std::string text) const override {
    std::string result;
    for (std::string_view rest = text; !rest.empty();) {
      const CodePoint c = first_code_point(rest);
      // U+0130 alone becomes two characters without regard to its neighbours.
      if (c.value == 0x130) {
        result += "i\xCC\x87";
      } else {
        append_utf8(result, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c.value))));
      }
      rest.remove_prefix(c.size);
    }
    return result;
  }
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string apply(std::string text) const override { return text.empty() ? text : prefix_ + text; }
  bool only_at_start() const override { return true; }

 private:
  std::string prefix_;
};

class Replace : public Normalizer {
 public:
  Replace(std::unique_ptr<WordPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::string apply(std::string text) const override {
    std::string result;
    std::size_t done = 0;
    pattern_->each_match(text, [&](std::size_t begin, std::size_t end) {
      result.append(text, done, begin - done);
      result += content_;
      done = end;
    });
    return done == 0 ? text : result.append(text, done);
  }

 private:
  std::unique_ptr<WordPattern> pattern_;
  std::string content_;
};

class StripSpace : public Normalizer {
 public:
  StripSpace(bool left, bool right) : left_(left), right_(right) {}
  std::string apply(std::string text) const override {
    std::string_view rest = text;
    const auto is_space = [](const CodePoint& c) {
      return u_hasBinaryProperty(static_cast<UChar32>(c.value), UCHAR_WHITE_SPACE) != 0;
    };
    while (left_ && !rest.empty() && is_space(first_code_point(rest)))
      rest.remove_prefix(first_code_point(rest).size);
    while (right_ && !rest.empty()) {
      std::size_t start = rest.size() - 1;
      while (start > 0 && (static_cast<unsigned char>(rest[start]) & 0xC0) == 0x80) --start;
      if (!is_space(first_code_point(rest.substr(start)))) break;
      rest.remove_suffix(rest.size() - start);
    }
    return std::string(rest);
  }

 private:
  bool left_, right_;
};

void add_normalizer(const RawJson& json, const std::string& origin, std::vector<std::unique_ptr<Normalizer>>& list) {
  const std::string type = type_of(json, origin, "normalizer");
  if (type == "Sequence") {
    for (const RawJson& item : json.value("normalizers", RawJson::array())) add_normalizer(item, origin, list);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    list.push_back(std::make_unique<UnicodeForm>(type, origin));
  } else if (type == "Lowercase") {
    list.push_back(std::make_unique<Lowercase>());
  } else if (type == "Prepend") {
    list.push_back(std::make_unique<Prepend>(text_of(json, "prepend", origin)));
  } else if (type == "Replace") {
    list.push_back(std::make_unique<Replace>(pattern_of(json, origin), text_of(json, "content", origin)));
  } else if (type == "Strip") {
    list.push_back(
        std::make_unique<StripSpace>(flag_of(json, "strip_left", true), flag_of(json, "strip_right", true)));
  } else {
    fail(ExitCode::data, origin, ": normalizer '", type,
         "' is not supported (known: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip)");
  }
}

enum class Cut { removed, isolated, with_previous, with_next, contiguous };

Cut cut_of(const RawJson& json, const std::string& origin, const std::string& otherwise) {
  const std::string name = json.contains("behavior") ? text_of(json, "behavior", origin) : otherwise;
  if (name == "Removed") return Cut::removed;
  if (name == "Isolated") return Cut::isolated;
  if (name == "MergedWithPrevious") return Cut::with_previous;
  if (name == "MergedWithNext") return Cut::with_next;
  if (name == "Contiguous") return Cut::contiguous;
  fail(ExitCode::data, origin, ": behavior '", name,
       "' is not one of: Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

// Cuts at the matches of a pattern, or, inverted, at what lies between them.
class Split : public PreTokenizer {
 public:
  Split(std::shared_ptr<const WordPattern> pattern, Cut cut, bool invert)
      : pattern_(std::move(pattern)), cut_(cut), invert_(invert) {}
  void apply(Words& words, bool) const override {
    Words result;
    for (const std::string& word : words) split(word, result);
    words = std::move(result);
  }

 private:
  struct Part {
    std::size_t begin, end;
    bool match;
  };
  void split(const std::string& word, Words& result) const {
    std::vector<Part> parts;
    std::size_t done = 0;
    pattern_->each_match(word, [&](std::size_t begin, std::size_t end) {
      if (begin > done) parts.push_back({done, begin, invert_});
      parts.push_back({begin, end, !invert_});
      done = end;
    });
    if (done < word.size()) parts.push_back({done, word.size(), invert_});
    std::vector<Part> joined;
    bool previous = false;  // whether the part before is a match
    for (const Part& part : parts) {
      if (cut_ == Cut::removed && part.match) continue;
      const bool joins = cut_ == Cut::with_previous ? part.match && !previous && !joined.empty()
                         : cut_ == Cut::contiguous  ? part.match == previous && !joined.empty()
                                                    : false;
      if (joins) {
        joined.back().end = part.end;
      } else {
        joined.push_back(part);
      }
      previous = part.match;
    }
    if (cut_ == Cut::with_next) {
      std::vector<Part> merged;
      bool next = false;  // whether the part behind is a match
      for (auto part = joined.rbegin(); part != joined.rend(); ++part) {
        if (part->match && !next && !merged.empty()) {
          merged.back().begin = part->begin;
        } else {
          merged.push_back(*part);
        }
        next = part->match;
      }
      joined.assign(merged.rbegin(), merged.rend());
    }
    for (const Part& part : joined) result.push_back(word.substr(part.begin, part.end - part.begin));
  }

  std::shared_ptr<const WordPattern> pattern_;
  Cut cut_;
  bool invert_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void apply(Words& words, bool) const override {
    for (std::string& word : words) {
      if (!word.starts_with(' ')) word.insert(word.begin(), ' ');
    }
  }
};

// Spaces become marks; a mark may begin a document, and a word begin with each mark.
class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { always, first, never };
  Metaspace(std::string mark, Prepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {}
  void apply(Words& words, bool at_start) const override {
    Words result;
    bool first = at_start;
    for (const std::string& word : words) {
      std::string text;
      for (const char c : word) {
        if (c == ' ') {
          text += mark_;
        } else {
          text += c;
        }
      }
      const bool prepends = prepend_ == Prepend::always || (prepend_ == Prepend::first && first);
      if (prepends && !text.starts_with(mark_)) text.insert(0, mark_);
      first = false;
      if (!split_) {
        result.push_back(std::move(text));
        continue;
      }
      std::size_t begin = 0;
      for (std::size_t at = mark_.size(); (at = text.find(mark_, at)) != std::string::npos; at += mark_.size()) {
        if (at > begin) result.push_back(text.substr(begin, at - begin));
        begin = at;
      }
      if (begin < text.size()) result.push_back(text.substr(begin));
    }
    words = std::move(result);
  }

 private:
  std::string mark_;
  Prepend prepend_;
  bool split_;
};

void add_pre_tokenizer(const RawJson& json, const std::string& origin, PreTokenizers& list) {
  const std::string type = type_of(json, origin, "pre-tokenizer");
  if (list.byte_level) fail(ExitCode::data, origin, ": pre-tokenizer '", type, "' after ByteLevel is not supported");
  const auto add_split = [&](std::unique_ptr<WordPattern> pattern, Cut cut, bool invert) {
    std::shared_ptr<const WordPattern> shared = std::move(pattern);
    if (list.steps.empty() && cut == Cut::isolated && !invert && shared->covers()) list.only_pattern = shared;
    list.steps.push_back(std::make_unique<Split>(shared, cut, invert));
  };
  if (type == "Sequence") {
    for (const RawJson& item : json.value("pretokenizers", RawJson::array())) add_pre_tokenizer(item, origin, list);
  } else if (type == "Split") {
    const Cut cut = cut_of(json, origin, "Isolated");
    add_split(pattern_of(json, origin), cut, flag_of(json, "invert", false));
  } else if (type == "ByteLevel") {
    const bool use_regex = flag_of(json, "use_regex", true), prefix = flag_of(json, "add_prefix_space", true);
    if (prefix && !list.steps.empty()) {
      // A space before each word of an earlier step: words are no longer the pattern's alone.
      list.only_pattern = nullptr;
      list.steps.push_back(std::make_unique<PrefixSpace>());
    } else if (prefix) {
      list.prefix_space = true;
      if (!use_regex) list.steps.push_back(std::make_unique<PrefixSpace>());
    }
    if (use_regex) {
      const bool first = list.steps.empty();
      if (first && list.prefix_space) list.steps.push_back(std::make_unique<PrefixSpace>());
      std::shared_ptr<const WordPattern> pattern = make_word_pattern(std::string(gpt2_pattern), origin);
      if (first) list.only_pattern = pattern;
      if (!first) list.only_pattern = nullptr;
      list.steps.push_back(std::make_unique<Split>(pattern, Cut::isolated, false));
    }
    list.byte_level = true;
  } else if (type == "Metaspace") {
    const std::string scheme = json.contains("prepend_scheme")           ? text_of(json, "prepend_scheme", origin)
                               : flag_of(json, "add_prefix_space", true) ? "always"
                                                                         : "never";
    const auto prepend = scheme == "always"  ? Metaspace::Prepend::always
                         : scheme == "first" ? Metaspace::Prepend::first
                                             : Metaspace::Prepend::never;
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      fail(ExitCode::data, origin, ": prepend_scheme '", scheme, "' is not one of: always, first, never");
    }
    const std::string mark =
        json.contains("replacement") ? text_of(json, "replacement", origin) : std::string(space_mark);
    list.marks_prefix = prepend != Metaspace::Prepend::never;
    list.only_pattern = nullptr;
    list.steps.push_back(std::make_unique<Metaspace>(mark, prepend, flag_of(json, "split", true)));
  } else if (type == "Digits") {
    list.only_pattern = nullptr;
    const bool each = flag_of(json, "individual_digits", false);
    list.steps.push_back(
        std::make_unique<Split>(make_word_pattern("\\p{N}", origin), each ? Cut::isolated : Cut::contiguous, false));
  } else if (type == "Punctuation") {
    list.only_pattern = nullptr;
    const Cut cut = cut_of(json, origin, "Isolated");
    list.steps.push_back(std::make_unique<Split>(make_word_pattern("[!-/:-@\\[-`{-~]|\\p{P}", origin), cut, false));
  } else if (type == "WhitespaceSplit") {
    list.only_pattern = nullptr;
    list.steps.push_back(std::make_unique<Split>(make_word_pattern("\\s", origin), Cut::removed, false));
  } else if (type == "Whitespace") {
    list.only_pattern = nullptr;
    list.steps.push_back(std::make_unique<Split>(make_word_pattern("\\w+|[^\\w\\s]+", origin), Cut::removed, true));
  } else {
    fail(ExitCode::data, origin, ": pre-tokenizer '", type,
         "' is not supported (known: Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, "
         "WhitespaceSplit)");
  }
}

}  // namespace

std::vector<std::unique_ptr<Normalizer>> make_normalizers(const RawJson& json, const std::string& origin) {
  std::vector<std::unique_ptr<Normalizer>> list;
  if (!json.is_null()) add_normalizer(json, origin, list);
  return list;
}

PreTokenizers make_pre_tokenizers(const RawJson& json, const std::string& origin) {
  PreTokenizers list;
  if (!json.is_null()) add_pre_tokenizer(json, origin, list);
  if (list.steps.size() != (list.prefix_space ? 2 : 1)) list.only_pattern = nullptr;
  return list;
}

}  // namespace satformer
