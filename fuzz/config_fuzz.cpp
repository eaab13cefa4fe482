// A configuration file: one field of each kind. What is accepted must give itself when it is written and read again.
#include "base/config.h"

#include <nlohmann/json.hpp>

#include "memory_file.h"

namespace {

struct Inner {
  std::optional<std::int64_t> count;
  std::optional<double> rate;
  std::optional<std::string> name;
  std::vector<std::int64_t> list;
  satformer::NumberOrAuto size;
  void visit(satformer::FieldVisitor& v) {
    v.field("count", &count, "a count", {.min = 0});
    v.field("rate", &rate, "a rate", {.min = 0, .max = 1, .open_min = true});
    v.field("name", &name, "a name");
    v.field("list", &list, "numbers");
    v.field("size", &size, "a size", {.min = 1});
  }
};

struct Outer {
  bool flag = false;
  std::int64_t steps = 10;
  double factor = 0.5;
  std::string kind = "one";
  Inner inner;
  void visit(satformer::FieldVisitor& v) {
    v.field("flag", &flag, "a flag");
    v.field("steps", &steps, "steps", {.min = 1, .max = 1 << 20});
    v.field("factor", &factor, "a factor", {.min = 0});
    v.field("kind", &kind, "a kind", {.choices = {"one", "two"}});
    v.section("inner", inner);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const std::string_view text = fuzzing::text_of(data, size);
  try {
    Outer object;
    ConfigBinding binding(object);
    if (text.starts_with('-')) {
      binding.apply_override(text.substr(1));
    } else {
      binding.apply_json(parse_json(text, "input"), "input");
    }
    const std::string written = binding.to_json().dump();
    Outer again;
    ConfigBinding second(again);
    second.apply_json(parse_json(written, "written"), "written");
    if (second.to_json().dump() != written) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
