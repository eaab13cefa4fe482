// A chat template and, behind a zero byte, its variables: it must come to an end within its bounds.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "jinja/template.h"
#include "memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace satformer;
  const std::string_view input = fuzzing::text_of(data, size);
  const std::size_t zero = input.find('\0');
  try {
    Json variables = zero == std::string_view::npos ? Json() : parse_json(input.substr(zero + 1), "variables");
    if (!variables.is_object()) {
      variables = {
          {"messages",
           {{{"role", "user"}, {"content", " hi \xC3\xA9\n"}}, {{"role", "assistant"}, {"content", nullptr}}}},
          {"tools", {{{"type", "function"}, {"function", {{"name", "f"}, {"n", 1.5}}}}}},
          {"bos_token", "<s>"},
          {"add_generation_prompt", true}};
    }
    constexpr std::size_t most_text = 1 << 18;
    const jinja::Template made(input.substr(0, zero), "input");
    const std::string text = made.render(variables, 1'700'000'000, {50'000, most_text, 200});
    if (text.size() > 2 * most_text) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
