#include "jinja/template.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/file.h"

namespace satformer::jinja {
namespace {

const std::string folder = SATFORMER_TEST_DATA "/data/jinja";

std::time_t fixed_time() {
  std::tm parts{};
  parts.tm_year = 126;
  parts.tm_mon = 4;
  parts.tm_mday = 3;
  parts.tm_hour = 12;
  parts.tm_min = 34;
  parts.tm_sec = 56;
  parts.tm_isdst = -1;
  return mktime(&parts);
}

std::string error_of(const std::string& source, const Json& variables = Json::object(), const Limits& limits = {}) {
  try {
    Template(source, "t.jinja").render(variables, fixed_time(), limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::data);
    return error.what();
  }
  return "no error";
}

// Recorded from jinja2 by tests/data/make_jinja_cases.py.
TEST(Jinja, GivesWhatTheOfficialPackageGives) {
  std::ifstream in(folder + "/expected.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  const Json head = Json::parse(line);
  int cases = 0, wrong = 0;
  while (std::getline(in, line)) {
    const Json expected = Json::parse(line);
    Json variables = head["data"];
    std::string source;
    if (expected.contains("file")) {
      source = read_file(folder + "/" + expected["file"].get<std::string>());
      variables = head["settings"][expected["setting"].get<std::size_t>()];
      variables["messages"] = head["conversations"][expected["conversation"].get<std::size_t>()];
    } else {
      source = expected["template"].get<std::string>();
    }
    std::string text, error;
    bool parsed = false;
    try {
      const Template made(source, "t");
      parsed = true;
      text = made.render(variables, fixed_time());
    } catch (const Error& caught) {
      error = caught.what();
    }
    bool right = false;
    if (expected.contains("text")) {
      right = error.empty() && text == expected["text"].get<std::string>();
    } else if (expected.contains("raised")) {
      right = error == expected["raised"].get<std::string>();
    } else if (expected.contains("syntax")) {
      right = !parsed && !error.empty();
    } else {
      right = !error.empty();
    }
    ++cases;
    if (!right && ++wrong <= 12) {
      Json shown = expected;
      shown.erase("template");
      ADD_FAILURE() << (expected.contains("file") ? "" : source) << "\n  expected " << shown.dump() << "\n  got      "
                    << Json(text).dump() << " " << error;
    }
  }
  EXPECT_EQ(wrong, 0) << "of " << cases;
  EXPECT_GT(cases, 900);
}

TEST(Jinja, ErrorsNameTheLine) {
  EXPECT_EQ(error_of("a\n\n{{ 1 + }}"), "t.jinja: line 3: expected a value, not '}}'");
  EXPECT_EQ(error_of("\n{% fro x in y %}"), "t.jinja: line 2: there is no statement 'fro' here. Did you mean 'for'?");
  EXPECT_EQ(error_of("{{ x | uper }}"), "t.jinja: line 1: there is no filter 'uper' here. Did you mean 'upper'?");
  EXPECT_EQ(error_of("{{ x is sting }}"), "t.jinja: line 1: there is no test 'sting' here. Did you mean 'string'?");
  EXPECT_EQ(error_of("x\n{% if a %}\ny"), "t.jinja: line 3: 'endif' is missing");
  EXPECT_EQ(error_of("{% for x in y %}{% endif %}"), "t.jinja: line 1: 'endif' where 'endfor' was expected");
  EXPECT_EQ(error_of("\n\n{{ m.x }}"), "t.jinja: line 3: 'm' is undefined");
  EXPECT_EQ(error_of("{% set a = 1 %}\n{{ a + 'x' }}"), "t.jinja: line 2: '+' takes no 'int' and 'str'");
  EXPECT_EQ(error_of("{{ raise_exception('own words') }}"), "own words");
  EXPECT_EQ(error_of("{{ \"open"), "t.jinja: line 1: this string has no end (\")");
}

// A template is not trusted: whatever it does comes to an end.
TEST(Jinja, WorkTextAndDepthHaveBounds) {
  const Limits limits{100'000, 1 << 16, 200};
  for (const char* endless : {
           "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}{% "
           "endfor %}",
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
           "{{ 'x' * 99999999 }}",
           "{{ 9 * [0] * 9999999 }}",
           "{{ 'aaaaaaaaaa' * 999 | replace('a', 'b' * 9999) }}",
           "{% set ns = namespace(l=[]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}",
           "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
           "{% set ns = namespace(l=[]) %}{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l "
           "}}",
           "{% set a = namespace(l=[]) %}{% set b = namespace(l=[]) %}{% for i in range(40) %}{% set a.l = [a.l, "
           "a.l] %}"
           "{% set b.l = [b.l, b.l] %}{% endfor %}{{ a.l == b.l }}",
           "{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
           "{{ range(99999) | join('-' * 999) }}",
       }) {
    EXPECT_NE(error_of(endless, Json::object(), limits), "no error") << endless;
  }
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  std::string blocks;
  for (int i = 0; i < 5000; ++i) blocks += "{% if a %}";
  EXPECT_NE(error_of("{{ " + deep + " }}").find("nested"), std::string::npos);
  EXPECT_NE(error_of(blocks).find("nested"), std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 5000; ++i) chain += " + 1";
  EXPECT_NE(error_of(chain + " }}").find("too long"), std::string::npos);
  // What holds itself is freed, which the address sanitizer looks at.
  EXPECT_EQ(error_of("{% set n = namespace() %}{% set n.self = [n] %}{{ n.self | length }}"
                     "{% for i in [1] %}{% macro m() %}{{ m is defined }}{% endmacro %}{{ m() }}{% endfor %}"),
            "no error");
}

TEST(Jinja, TemplatesCannotReachOut) {
  for (const char* source : {"{{ ''.__class__ }}", "{{ messages.__init__ }}", "{{ self }}", "{{ cycler }}"}) {
    const std::string text = Template(source, "t").render({{"messages", Json::array()}}, 0);
    EXPECT_EQ(text, "") << source;
  }
  EXPECT_NE(error_of("{{ ''.__class__.__mro__ }}"), "no error");
  EXPECT_NE(error_of("{{ strftime_now('%c' * 300) }}"), "no error");
}

}  // namespace
}  // namespace satformer::jinja
