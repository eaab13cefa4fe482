#include "base/unicode.h"

#include <gtest/gtest.h>

namespace satformer {
namespace {

TEST(Unicode, CodePointsGoThereAndBack) {
  for (const char32_t c : {U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFD', U'\x10000', U'\x10FFFF'}) {
    std::string text;
    append_utf8(text, c);
    const CodePoint read = first_code_point(text);
    EXPECT_EQ(read.value, c);
    EXPECT_EQ(read.size, text.size());
  }
}

TEST(Unicode, InvalidBytesAreReplacedOneByOne) {
  EXPECT_EQ(one_line("a\nb\tc\x1b[1m\x7f\xC3\xA9"), "a\\nb\\tc\\x1b[1m\\x7f\xC3\xA9");
  EXPECT_EQ(replace_invalid_utf8("a\xFF\xC3z"), "a\xEF\xBF\xBD\xEF\xBF\xBDz");
  EXPECT_EQ(count_characters("\xED\xA0\x80"), 3);  // a surrogate
  EXPECT_EQ(count_characters("\xC0\xAF"), 2);      // overlong
  EXPECT_EQ(count_characters("\xF0\x9F\x98"), 3);  // cut off
  EXPECT_EQ(count_characters("h\xC3\xA9"), 2);
}

TEST(Unicode, StripTakesUnicodeWhiteSpace) {
  EXPECT_EQ(strip("\x1C \t\xC2\xA0 word\xE3\x80\x80\n"), "word");
  EXPECT_EQ(strip_right(" \xC2\xA0 "), "");
  EXPECT_EQ(strip_left("\xE2\x80\x8Bx"), "\xE2\x80\x8Bx");  // a zero-width space is none
  EXPECT_EQ(strip_characters("..a.b..", '.'), "a.b");
}

TEST(Unicode, WordsAreCountedWithEmptyEnds) {
  EXPECT_EQ(count_words("one two\n\nthree"), 3);
  EXPECT_EQ(count_words(" one "), 3);
  EXPECT_EQ(count_words(""), 1);
  EXPECT_EQ(split_at_space(" one \xC2\xA0two "), (std::vector<std::string>{"one", "two"}));
}

}  // namespace
}  // namespace satformer
