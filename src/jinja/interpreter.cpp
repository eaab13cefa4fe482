#include "jinja/interpreter.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace satformer::jinja {

Interpreter::Interpreter(const Limits& limits, std::time_t now) : limits_(limits), now_(now) {}

Interpreter::~Interpreter() {
  for (const auto& held : namespaces_) held->values.clear();
  for (const auto& held : kept_scopes_) held->names.clear();
}

void Interpreter::charge(std::size_t work) {
  work_ += work;
  if (work_ > limits_.work)
    fail(ExitCode::data, "the template does not come to an end: more than ", limits_.work, " steps");
}

Value Interpreter::text(std::string made) {
  if (made.size() > limits_.text) fail(ExitCode::data, "a text becomes longer than ", limits_.text, " bytes");
  charge(1 + made.size() / 64);
  return made;
}

Value Interpreter::list(std::vector<Value> made) {
  charge(1 + made.size());
  return Value::list(std::move(made));
}

std::string Interpreter::shown(const Value& value) {
  if (const std::string* text = value.text()) return *text;
  std::string made = to_text(value, limits_.text);
  charge(1 + made.size() / 64);
  return made;
}

Value Interpreter::new_namespace(Dict values) {
  auto made = std::make_shared<Namespace>();
  made->values = std::move(values);
  namespaces_.push_back(made);
  return made;
}

std::string Interpreter::run(const Body& body, Dict variables) {
  std::string out;
  out_ = &out;
  scope_ = std::make_shared<Scope>();
  for (const auto& [name, value] : global_functions().items()) set(name, value);
  scope_ = std::make_shared<Scope>(Scope{scope_, {}, nullptr});
  for (const auto& [name, value] : variables.items()) set(name, value);
  scope_ = std::make_shared<Scope>(Scope{scope_, {}, nullptr});
  execute(body);
  return out;
}

const Value* Interpreter::find(const std::string& name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    for (const auto& [known, value] : scope->names) {
      if (known == name) return &value;
    }
  }
  return nullptr;
}

void Interpreter::set(const std::string& name, Value value) {
  for (auto& [known, old] : scope_->names) {
    if (known == name) {
      old = std::move(value);
      return;
    }
  }
  scope_->names.emplace_back(name, std::move(value));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  if (++depth_ > limits_.depth) fail(ExitCode::data, "the template calls itself more than ", limits_.depth, " deep");
  Flow flow = Flow::on;
  for (const Statement& s : body) {
    line_ = s.line;
    charge(1);
    flow = execute(s);
    if (flow != Flow::on) break;
  }
  --depth_;
  return flow;
}

std::string Interpreter::captured(const Body& body) {
  std::string text;
  std::string* const before = std::exchange(out_, &text);
  execute(body);
  out_ = before;
  charge(1 + text.size() / 64);
  return text;
}

Interpreter::Flow Interpreter::execute(const Statement& s) {
  const auto scoped = [&](const auto& action) {
    const auto before = std::exchange(scope_, std::make_shared<Scope>(Scope{scope_, {}, nullptr}));
    action();
    scope_ = before;
  };
  switch (s.kind) {
    case Statement::text:
      *out_ += s.content;
      charge(s.content.size() / 64);
      break;
    case Statement::output: {
      const Value value = evaluate(*s.expression);
      const std::string* text = value.text();
      if (text) charge(text->size() / 64);
      *out_ += text ? *text : shown(value);
      break;
    }
    case Statement::conditional:
      return execute(evaluate(*s.expression).truth() ? s.body : s.otherwise);
    case Statement::loop:
      return loop(s);
    case Statement::assign:
      assign(s.target, evaluate(*s.expression));
      break;
    case Statement::assign_body:
    case Statement::filtered: {
      std::string body;
      scoped([&] { body = captured(s.body); });
      text_of_body_.push_back(std::move(body));
      Value value = evaluate(*s.expression);
      text_of_body_.pop_back();
      if (s.kind == Statement::assign_body) {
        assign(s.target, std::move(value));
      } else {
        *out_ += shown(value);
      }
      break;
    }
    case Statement::macro:
      set(s.content, macro(s));
      break;
    case Statement::call: {
      const Value callee = evaluate(*s.expression->children[0]);
      Arguments given = arguments(*s.expression);
      given.named.emplace_back("caller", macro(s));
      *out_ += shown(call(callee, given));
      break;
    }
    case Statement::scope:
      scoped([&] {
        std::vector<Value> values;
        for (const ExpressionPointer& e : s.defaults) values.push_back(evaluate(*e));
        for (std::size_t i = 0; i < values.size(); ++i) set(s.parameters[i], std::move(values[i]));
        execute(s.body);
      });
      break;
    case Statement::leave:
      return s.content == "break" ? Flow::leave : Flow::next;
  }
  if (out_->size() > limits_.text) fail(ExitCode::data, "a text becomes longer than ", limits_.text, " bytes");
  return Flow::on;
}

Interpreter::Flow Interpreter::loop(const Statement& s) {
  std::vector<Value> items = elements(evaluate(*s.expression));
  charge(items.size());
  const auto before = scope_;
  auto state = std::make_shared<LoopState>();
  const auto enter = [&](const Value& item) {
    scope_ = std::make_shared<Scope>(Scope{before, {}, nullptr});
    assign(s.target, item);
  };
  if (s.condition) {
    for (const Value& item : items) {
      enter(item);
      if (evaluate(*s.condition).truth()) state->items.push_back(item);
    }
  } else {
    state->items = std::move(items);
  }
  for (state->index = 0; state->index < state->items.size(); ++state->index) {
    enter(state->items[state->index]);
    scope_->loop = state;
    if (execute(s.body) == Flow::leave) break;
  }
  scope_ = before;
  return state->items.empty() ? execute(s.otherwise) : Flow::on;
}

void Interpreter::assign(const Target& target, Value value) {
  if (!target.attribute.empty()) {
    const Value* held = find(target.names[0]);
    Namespace* space = held ? held->name_space() : nullptr;
    if (!space) fail(ExitCode::data, "'", target.names[0], "' is no namespace, so that nothing can be set in it");
    space->values.set(target.attribute, std::move(value));
    return;
  }
  if (!target.tuple) return set(target.names[0], std::move(value));
  std::vector<Value> parts = elements(value);
  if (parts.size() != target.names.size()) {
    fail(ExitCode::data, parts.size(), " values for ", target.names.size(), " names");
  }
  for (std::size_t i = 0; i < parts.size(); ++i) set(target.names[i], std::move(parts[i]));
}

Value Interpreter::macro(const Statement& s) {
  if (kept_scopes_.empty() || kept_scopes_.back() != scope_) kept_scopes_.push_back(scope_);
  // The scope holds the macro, so the macro does not hold the scope.
  return Value::function(s.content.empty() ? "caller" : s.content,
                         [&s, scope = scope_](Interpreter& in, const Arguments& arguments) {
                           return in.call_macro(s, scope, arguments);
                         });
}

Value Interpreter::call_macro(const Statement& s, const std::shared_ptr<Scope>& defined_in, const Arguments& given) {
  const std::string name = s.content.empty() ? "caller" : s.content;
  const auto before = std::exchange(scope_, std::make_shared<Scope>(Scope{defined_in, {}, nullptr}));
  const int line = line_;
  if (given.positional.size() > s.parameters.size()) {
    fail(ExitCode::data, "macro '", name, "' takes ", s.parameters.size(), " arguments, not ",
         given.positional.size());
  }
  const std::size_t first_default = s.parameters.size() - s.defaults.size();
  for (const auto& [key, value] : given.named) {
    const auto known = std::find(s.parameters.begin(), s.parameters.end(), key);
    if (known == s.parameters.end() && key != "caller") {
      fail(ExitCode::data, "macro '", name, "' takes no argument '", key, "'");
    }
    if (known - s.parameters.begin() < std::ssize(given.positional)) {
      fail(ExitCode::data, "macro '", name, "' is given '", key, "' twice");
    }
    set(key, value);
  }
  for (std::size_t i = 0; i < s.parameters.size(); ++i) {
    const std::string& parameter = s.parameters[i];
    if (i < given.positional.size()) {
      set(parameter, given.positional[i]);
    } else if (std::none_of(given.named.begin(), given.named.end(),
                            [&](const auto& n) { return n.first == parameter; })) {
      set(parameter, i >= first_default ? evaluate(*s.defaults[i - first_default])
                                        : Value(Undefined{concat("parameter '", parameter, "' was not provided")}));
    }
  }
  std::string text = captured(s.body);
  scope_ = before;
  line_ = line;
  return text;
}

}  // namespace satformer::jinja
