#include "jinja/template.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "jinja/interpreter.h"
#include "jinja/lexer.h"
#include "jinja/syntax.h"

namespace satformer::jinja {

struct Template::Impl {
  std::string origin;
  Body body;
  std::set<std::string> names;
};

Template::Template(std::string_view source, std::string origin) : impl_(std::make_unique<Impl>()) {
  impl_->origin = std::move(origin);
  try {
    impl_->body = parse(source);
    const std::vector<Token> tokens = tokenize(source);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool attribute = i > 0 && tokens[i - 1].kind == Token::sign && tokens[i - 1].text == ".";
      if (tokens[i].kind == Token::name && !attribute) impl_->names.insert(tokens[i].text);
    }
  } catch (const Error& error) {
    fail(ExitCode::data, impl_->origin, ": ", error.what());
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

bool Template::uses(const std::string& variable) const { return impl_->names.contains(variable); }

std::string Template::render(const Json& variables, std::time_t now, const Limits& limits) const {
  Interpreter interpreter(limits, now);
  try {
    Dict names;
    for (const auto& [name, value] : variables.items()) names.set(name, Value::from_json(value));
    return interpreter.run(impl_->body, std::move(names));
  } catch (const Raised& raised) {
    fail(ExitCode::data, raised.what());
  } catch (const Error& error) {
    fail(ExitCode::data, impl_->origin, ": line ", interpreter.line(), ": ", error.what());
  }
}

}  // namespace satformer::jinja
