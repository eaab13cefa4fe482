#include "report/escape.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/unicode.h"
#include "report/base64.h"
#include "report/test_xml.h"

#include <nlohmann/json.hpp>

namespace satformer {
namespace {

TEST(Escape, AnyBytesBecomeWellFormedXml) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; second += 3) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second), '<'};
      const std::string escaped = escape_xml(text);
      ASSERT_EQ(XmlCheck::problem("<a b=\"" + escaped + "\">" + escaped + "</a>"), "") << first << " " << second;
    }
  }
  EXPECT_EQ(escape_xml("a<b>&\"'\x01é\n"), "a&lt;b&gt;&amp;&quot;&#39;␁é ");
  EXPECT_EQ(escape_xml("\xff"), "\xef\xbf\xbd");
  EXPECT_EQ(escape_xml("\xef\xbf\xbf"), "\xef\xbf\xbd");
}

TEST(Escape, JsonCannotEndItsScript) {
  const std::string text = "</script><!--\u2028 \"é\\";
  const std::string literal = json_literal(text);
  EXPECT_EQ(literal.find_first_of("<>&"), std::string::npos);
  for (const char c : literal) EXPECT_LT(static_cast<unsigned char>(c), 0x80);
  EXPECT_EQ(parse_json(literal, "literal").get<std::string>(), text);
  EXPECT_EQ(parse_json(json_literal("a\xff"), "literal").get<std::string>(), "a\xef\xbf\xbd");
}

TEST(Escape, Base64) {
  const auto coded = [](std::string_view text) {
    return base64(std::vector<std::uint8_t>(text.begin(), text.end()));
  };
  EXPECT_EQ(coded(""), "");
  EXPECT_EQ(coded("f"), "Zg==");
  EXPECT_EQ(coded("fo"), "Zm8=");
  EXPECT_EQ(coded("foobar"), "Zm9vYmFy");
  EXPECT_EQ(coded("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace satformer
