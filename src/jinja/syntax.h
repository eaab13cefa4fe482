// A template that was parsed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jinja/value.h"

namespace satformer::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
  enum Kind {
    constant,   // value
    name,       // text
    list,       // children; flag: a tuple
    dict,       // children: key, value, key, value
    attribute,  // children[0].text
    item,       // children[0][children[1]]
    slice,      // children[0][children[1]:children[2]:children[3]], nullptr where left out
    call,       // children[0](arguments)
    filter,     // children[0] | text(arguments)
    test,       // children[0] is text(arguments); flag: is not
    unary,      // text: "-", "+", "not"
    binary,     // text: arithmetic, "~", "and", "or"
    compare,    // children[0] texts[0] children[1] texts[1] children[2] ...
    condition,  // children[0] if children[1] else children[2], which may be nullptr
  };
  Kind kind = constant;
  int line = 1;
  std::string text = {};
  Value value = {};
  bool flag = false;
  std::vector<ExpressionPointer> children = {};
  std::vector<std::string> texts = {};
  std::vector<ExpressionPointer> positional = {};
  std::vector<std::pair<std::string, ExpressionPointer>> named = {};
};

// Where a value is put: names (more than one takes a list apart), or name.attribute of a namespace.
struct Target {
  std::vector<std::string> names;
  std::string attribute;
  bool tuple = false;
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum Kind {
    text,         // text
    output,       // expression
    conditional,  // expression: body; otherwise
    loop,         // target in expression if condition: body; otherwise
    assign,       // target = expression
    assign_body,  // target = filters over the text of body
    macro,        // text(parameters): body
    call,         // expression, a call, with body as caller(parameters)
    filtered,     // filters over the text of body
    scope,        // with parameters = defaults: body
    leave,        // text: "break" or "continue"
  };
  Kind kind = text;
  int line = 1;
  std::string content = {};
  ExpressionPointer expression = {}, condition = {};
  Target target = {};
  Body body = {}, otherwise = {};
  std::vector<std::string> parameters = {};
  std::vector<ExpressionPointer> defaults = {};  // of the last parameters; of a scope: of all
};

// Error(data) "line N: ...".
Body parse(std::string_view source);

}  // namespace satformer::jinja
