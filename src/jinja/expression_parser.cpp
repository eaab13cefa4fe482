#include <charconv>

#include "base/unicode.h"
#include "jinja/parser.h"

namespace satformer::jinja {
namespace {

// Longer chains of operators would nest too deeply.
constexpr int most_links = 200;

bool reserved(const std::string& name) {
  return name == "and" || name == "or" || name == "not" || name == "in" || name == "is" || name == "if" ||
         name == "else" || name == "elif";
}

}  // namespace

std::string TokenStream::shown() const {
  switch (peek().kind) {
    case Token::output_end:
      return "'}}'";
    case Token::block_end:
      return "'%}'";
    case Token::end:
    case Token::data:
    case Token::output_begin:
    case Token::block_begin:
      return "the end";
    default:
      return "'" + one_line(peek().text.substr(0, 60)) + "'";
  }
}

void TokenStream::expect_sign(std::string_view text) {
  if (!skip_sign(text)) refuse("expected '", text, "', not ", shown());
}

std::string TokenStream::expect_name(std::string_view what) {
  if (!is(Token::name)) refuse("expected ", what, ", not ", shown());
  return next().text;
}

ExpressionPointer ExpressionParser::make(Expression::Kind kind, std::string text) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind;
  made->line = in_.peek().line;
  made->text = std::move(text);
  return made;
}

ExpressionPointer ExpressionParser::joined(std::string sign, ExpressionPointer left, ExpressionPointer right) const {
  ExpressionPointer made = make(Expression::binary, std::move(sign));
  made->line = left->line;
  made->children.push_back(std::move(left));
  made->children.push_back(std::move(right));
  return made;
}

ExpressionPointer ExpressionParser::expression() {
  const Nesting nesting(in_, depth_);
  const int links = chain_;
  ExpressionPointer value = without_condition();
  while (in_.skip_word("if")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    ExpressionPointer choice = make(Expression::condition);
    choice->children.push_back(std::move(value));
    choice->children.push_back(without_condition());
    choice->children.push_back(in_.skip_word("else") ? expression() : nullptr);
    value = std::move(choice);
  }
  chain_ = links;
  return value;
}

ExpressionPointer ExpressionParser::without_condition() {
  const int links = chain_;
  ExpressionPointer left = both();
  while (in_.skip_word("or")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    left = joined("or", std::move(left), both());
  }
  chain_ = links;
  return left;
}

ExpressionPointer ExpressionParser::both() {
  ExpressionPointer left = negation();
  while (in_.skip_word("and")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    left = joined("and", std::move(left), negation());
  }
  return left;
}

ExpressionPointer ExpressionParser::negation() {
  const Nesting nesting(in_, depth_);
  if (!in_.is(Token::name, "not")) return comparison();
  ExpressionPointer made = make(Expression::unary, "not");
  in_.next();
  made->children.push_back(negation());
  return made;
}

ExpressionPointer ExpressionParser::comparison() {
  ExpressionPointer left = sum();
  ExpressionPointer made;
  while (true) {
    std::string sign;
    for (const char* known : {"==", "!=", "<", "<=", ">", ">="}) {
      if (in_.is(Token::sign, known)) sign = known;
    }
    if (in_.is(Token::name, "in")) sign = "in";
    if (in_.is(Token::name, "not") && in_.is(Token::name, "in", 1)) sign = "not in";
    if (sign.empty()) break;
    in_.next();
    if (sign == "not in") in_.next();
    if (!made) {
      made = make(Expression::compare);
      made->children.push_back(std::move(left));
    }
    made->texts.push_back(sign);
    made->children.push_back(sum());
  }
  return made ? std::move(made) : std::move(left);
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer left = concatenation();
  while (in_.is(Token::sign, "+") || in_.is(Token::sign, "-")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    std::string sign = in_.next().text;
    left = joined(std::move(sign), std::move(left), concatenation());
  }
  return left;
}

ExpressionPointer ExpressionParser::concatenation() {
  ExpressionPointer left = product();
  while (in_.skip_sign("~")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    left = joined("~", std::move(left), product());
  }
  return left;
}

ExpressionPointer ExpressionParser::product() {
  ExpressionPointer left = power();
  while (in_.is(Token::sign, "*") || in_.is(Token::sign, "/") || in_.is(Token::sign, "//") ||
         in_.is(Token::sign, "%")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    std::string sign = in_.next().text;
    left = joined(std::move(sign), std::move(left), power());
  }
  return left;
}

ExpressionPointer ExpressionParser::power() {
  ExpressionPointer left = unary();
  while (in_.skip_sign("**")) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    left = joined("**", std::move(left), unary());
  }
  return left;
}

ExpressionPointer ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(in_, depth_);
  ExpressionPointer value;
  if (in_.is(Token::sign, "-") || in_.is(Token::sign, "+")) {
    value = make(Expression::unary, in_.peek().text);
    in_.next();
    value->children.push_back(unary(false));
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters(std::move(value)) : std::move(value);
}

ExpressionPointer ExpressionParser::primary() {
  ExpressionPointer made = make(Expression::constant);
  const Token token = in_.peek();
  switch (token.kind) {
    case Token::name:
      if (reserved(token.text)) in_.refuse("expected a value, not '", token.text, "'");
      in_.next();
      if (token.text == "true" || token.text == "True") {
        made->value = true;
      } else if (token.text == "false" || token.text == "False") {
        made->value = false;
      } else if (token.text != "none" && token.text != "None") {
        made->kind = Expression::name;
        made->text = token.text;
      }
      return made;
    case Token::string: {
      std::string text;
      while (in_.is(Token::string)) text += in_.next().text;
      made->value = std::move(text);
      return made;
    }
    case Token::integer: {
      std::int64_t whole = 0;
      const auto read = std::from_chars(token.text.data(), token.text.data() + token.text.size(), whole);
      if (read.ec != std::errc()) in_.refuse("the number ", token.text.substr(0, 40), " is too large");
      in_.next();
      made->value = whole;
      return made;
    }
    case Token::number: {
      double number = 0;
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
      in_.next();
      made->value = number;
      return made;
    }
    case Token::sign:
      if (token.text == "(") return in_parentheses();
      if (token.text == "[") return literal_list();
      if (token.text == "{") return literal_dict();
      break;
    default:
      break;
  }
  in_.refuse("expected a value, not ", in_.shown());
}

bool ExpressionParser::at_tuple_end() const {
  return in_.is(Token::output_end) || in_.is(Token::block_end) || in_.is(Token::sign, ")") ||
         in_.is(Token::sign, "=") || in_.is(Token::name, "in") || in_.is(Token::name, "if") ||
         in_.is(Token::name, "recursive");
}

ExpressionPointer ExpressionParser::tuple(bool conditions) {
  const auto one = [&] { return conditions ? expression() : without_condition(); };
  ExpressionPointer first = one();
  if (!in_.is(Token::sign, ",")) return first;
  ExpressionPointer made = make(Expression::list);
  made->flag = true;
  made->children.push_back(std::move(first));
  while (in_.skip_sign(",") && !at_tuple_end()) made->children.push_back(one());
  return made;
}

ExpressionPointer ExpressionParser::in_parentheses() {
  in_.expect_sign("(");
  if (in_.is(Token::sign, ")")) {
    ExpressionPointer empty = make(Expression::list);
    empty->flag = true;
    in_.next();
    return empty;
  }
  ExpressionPointer inside = tuple();
  in_.expect_sign(")");
  return inside;
}

ExpressionPointer ExpressionParser::literal_list() {
  ExpressionPointer made = make(Expression::list);
  in_.expect_sign("[");
  while (!in_.skip_sign("]")) {
    made->children.push_back(expression());
    if (!in_.is(Token::sign, "]")) in_.expect_sign(",");
  }
  return made;
}

ExpressionPointer ExpressionParser::literal_dict() {
  ExpressionPointer made = make(Expression::dict);
  in_.expect_sign("{");
  while (!in_.skip_sign("}")) {
    made->children.push_back(expression());
    in_.expect_sign(":");
    made->children.push_back(expression());
    if (!in_.is(Token::sign, "}")) in_.expect_sign(",");
  }
  return made;
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer of) {
  const int links = chain_;
  while (true) {
    if (in_.is(Token::sign, ".") || in_.is(Token::sign, "[")) {
      of = subscript(std::move(of));
    } else if (in_.is(Token::sign, "(")) {
      of = call(std::move(of));
    } else {
      break;
    }
    if (++chain_ > most_links) in_.refuse("this expression is too long");
  }
  chain_ = links;
  return of;
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer of) {
  if (in_.skip_sign(".")) {
    ExpressionPointer made = make(Expression::attribute);
    made->children.push_back(std::move(of));
    if (in_.is(Token::integer)) {
      made->kind = Expression::item;
      made->children.push_back(primary());
    } else {
      made->text = in_.expect_name("an attribute's name");
    }
    return made;
  }
  ExpressionPointer made = make(Expression::item);
  in_.expect_sign("[");
  made->children.push_back(std::move(of));
  std::vector<ExpressionPointer> parts;
  bool slice = false;
  while (!in_.is(Token::sign, "]")) {
    if (in_.skip_sign(":")) {
      slice = true;
      if (parts.empty()) parts.push_back(nullptr);
      const bool missing = in_.is(Token::sign, ":") || in_.is(Token::sign, "]");
      parts.push_back(missing ? nullptr : expression());
    } else if (parts.empty()) {
      parts.push_back(expression());
    } else {
      in_.refuse("expected ']', not ", in_.shown());
    }
  }
  in_.expect_sign("]");
  if (parts.empty() || parts.size() > 3) in_.refuse("[] asks for a key or a slice");
  if (slice) made->kind = Expression::slice;
  for (ExpressionPointer& part : parts) made->children.push_back(std::move(part));
  if (slice) made->children.resize(4);
  return made;
}

ExpressionPointer ExpressionParser::call(ExpressionPointer callee) {
  ExpressionPointer made = make(Expression::call);
  made->children.push_back(std::move(callee));
  arguments(*made);
  return made;
}

void ExpressionParser::arguments(Expression& of) {
  in_.expect_sign("(");
  while (!in_.skip_sign(")")) {
    if (in_.is(Token::sign, "*") || in_.is(Token::sign, "**")) in_.refuse("'*' arguments are not supported");
    if (in_.is(Token::name) && in_.is(Token::sign, "=", 1)) {
      std::string name = in_.next().text;
      in_.next();
      of.named.emplace_back(std::move(name), expression());
    } else {
      if (!of.named.empty()) in_.refuse("an argument without a name follows one with a name");
      of.positional.push_back(expression());
    }
    if (!in_.is(Token::sign, ")")) in_.expect_sign(",");
  }
}

ExpressionPointer ExpressionParser::filters(ExpressionPointer input) {
  const int links = chain_;
  while (true) {
    if (++chain_ > most_links) in_.refuse("this expression is too long");
    if (in_.is(Token::sign, "(")) {
      input = call(std::move(input));
      continue;
    }
    const bool test = in_.is(Token::name, "is");
    if (!test && !in_.is(Token::sign, "|")) break;
    in_.next();
    input = one_filter(std::move(input), test);
  }
  chain_ = links;
  return input;
}

ExpressionPointer ExpressionParser::one_filter(ExpressionPointer input, bool test) {
  ExpressionPointer made = make(test ? Expression::test : Expression::filter);
  made->flag = test && in_.skip_word("not");
  made->text = in_.expect_name(test ? "a test's name" : "a filter's name");
  if (test ? !is_test(made->text) : !is_filter(made->text)) {
    in_.refuse("there is no ", test ? "test" : "filter", " '", made->text, "' here.",
               did_you_mean(made->text, test ? test_names() : filter_names()));
  }
  made->children.push_back(std::move(input));
  if (in_.is(Token::sign, "(")) {
    arguments(*made);
  } else if (test) {
    const Token& token = in_.peek();
    const bool bracket = token.kind == Token::sign && (token.text == "[" || token.text == "{");
    const bool value = token.kind == Token::string || token.kind == Token::integer || token.kind == Token::number ||
                       (token.kind == Token::name && !reserved(token.text));
    if (bracket || value) made->positional.push_back(postfix(primary()));
  }
  return made;
}

ExpressionPointer ExpressionParser::first_filter(ExpressionPointer input) {
  return filters(one_filter(std::move(input), false));
}

}  // namespace satformer::jinja
