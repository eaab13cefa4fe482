// Runs a parsed template, within bounds of work, of text and of depth: templates come with models, and are not
// trusted.
#pragma once

#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "jinja/syntax.h"
#include "jinja/template.h"

namespace satformer::jinja {

// raise_exception(): the template's own message.
class Raised : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// State of a loop for its variable "loop".
struct LoopState {
  std::vector<Value> items;
  std::size_t index = 0;
  std::optional<Value> changed;  // what loop.changed() was told last
};

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;
  std::shared_ptr<LoopState> loop;
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string run(const Body& body, Dict variables);
  int line() const { return line_; }

  // What functions, filters and tests ask for.
  Value call(const Value& function, const Arguments& arguments);
  Value attribute(const Value& of, const std::string& name);  // x.name
  Value item(const Value& of, const Value& key);              // x[key]
  void charge(std::size_t work);                              // Error(data) when there was too much of it
  Value text(std::string made);                               // a new text, counted
  Value list(std::vector<Value> made);                        // a new list, counted
  std::string shown(const Value& value);                      // as {{ }} prints it
  const Limits& limits() const { return limits_; }
  std::time_t now() const { return now_; }
  Value new_namespace(Dict values);

 private:
  enum class Flow { on, next, leave };
  Flow execute(const Body& body);
  Flow execute(const Statement& s);
  Flow loop(const Statement& s);
  void assign(const Target& target, Value value);
  Value macro(const Statement& s);
  Value call_macro(const Statement& s, const std::shared_ptr<Scope>& defined_in, const Arguments& arguments);
  std::string captured(const Body& body);

  Value evaluate(const Expression& e);
  Value name(const Expression& e);
  Value slice(const Expression& e);
  Value binary(const Expression& e);
  Value compare(const Expression& e);
  Arguments arguments(const Expression& e);
  Value loop_variable(const std::shared_ptr<LoopState>& state);
  const Value* find(const std::string& name) const;
  void set(const std::string& name, Value value);

  const Limits limits_;
  const std::time_t now_;
  std::size_t work_ = 0;
  int depth_ = 0, line_ = 1;
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  std::vector<Value> text_of_body_;  // that filters stand behind
  // Namespaces and the scopes of macros may hold themselves: they are emptied at the end.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
};

// Arithmetic and texts: "+", "~", "**" and the like, without "and" and "or".
Value arithmetic(Interpreter& in, const std::string& sign, const Value& a, const Value& b);

// Methods of texts, lists and dicts: a function, or undefined.
Value method(const Value& of, const std::string& name);

// range, dict, namespace, raise_exception, strftime_now.
const Dict& global_functions();

Value apply_filter(Interpreter& in, const std::string& name, const Value& input, const Arguments& arguments);
bool apply_test(Interpreter& in, const std::string& name, const Value& input, const Arguments& arguments);

}  // namespace satformer::jinja
