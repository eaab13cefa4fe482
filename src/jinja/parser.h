// Tokens to syntax: what statements and expressions share.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "jinja/lexer.h"
#include "jinja/syntax.h"

namespace satformer::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  Token next() {
    Token token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(Token::Kind kind, std::string_view text = {}, std::size_t ahead = 0) const {
    const Token& token = peek(ahead);
    return token.kind == kind && (text.empty() || token.text == text);
  }
  bool skip(Token::Kind kind, std::string_view text = {}) {
    if (!is(kind, text)) return false;
    next();
    return true;
  }
  bool skip_sign(std::string_view text) { return skip(Token::sign, text); }
  bool skip_word(std::string_view text) { return skip(Token::name, text); }
  void expect_sign(std::string_view text);
  std::string expect_name(std::string_view what);
  template <class... What>
  [[noreturn]] void refuse(const What&... what) const {
    fail(ExitCode::data, "line ", peek().line, ": ", what...);
  }
  std::string shown() const;  // the next token, for messages

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

// Syntax in syntax in syntax, so that neither parsing nor running uses up the stack.
class Nesting {
 public:
  explicit Nesting(TokenStream& in, int& depth) : depth_(depth) {
    if (++depth_ > 100) in.refuse("the template is nested more than 100 deep");
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& in) : in_(in) {}
  ExpressionPointer expression();                           // a if b else c, and all that binds closer
  ExpressionPointer without_condition();                    // "or" and all that binds closer
  ExpressionPointer tuple(bool conditions = true);          // one expression, or a tuple without parentheses
  ExpressionPointer filters(ExpressionPointer input);       // "|name" and "is name", as many as there are
  ExpressionPointer first_filter(ExpressionPointer input);  // "name", then as above
  ExpressionPointer call(ExpressionPointer callee);         // arguments in parentheses

 private:
  ExpressionPointer both();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters = true);
  ExpressionPointer primary();
  ExpressionPointer one_filter(ExpressionPointer input, bool test);
  ExpressionPointer postfix(ExpressionPointer of);
  ExpressionPointer subscript(ExpressionPointer of);
  ExpressionPointer literal_list();
  ExpressionPointer literal_dict();
  ExpressionPointer in_parentheses();
  void arguments(Expression& of);
  bool at_tuple_end() const;
  ExpressionPointer make(Expression::Kind kind, std::string text = {}) const;
  ExpressionPointer joined(std::string sign, ExpressionPointer left, ExpressionPointer right) const;

  TokenStream& in_;
  int depth_ = 0;
  int chain_ = 0;  // links of one chain of operators, which nest to the left
};

// Known filters and tests, for messages at parsing time.
bool is_filter(const std::string& name);
bool is_test(const std::string& name);
const std::vector<std::string>& filter_names();
const std::vector<std::string>& test_names();

}  // namespace satformer::jinja
