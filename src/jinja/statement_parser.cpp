#include <algorithm>

#include "jinja/parser.h"

namespace satformer::jinja {
namespace {

const std::vector<std::string> statement_names = {"for",  "if",         "set",   "macro",    "call", "filter",
                                                  "with", "generation", "break", "continue", "raw"};

class StatementParser {
 public:
  explicit StatementParser(std::string_view source) : in_(tokenize(source)), expressions_(in_) {}

  Body run() {
    Body body = until({});
    if (!in_.is(Token::end)) in_.refuse("'", in_.peek(1).text, "' ends nothing that was begun");
    return body;
  }

 private:
  // Statements up to a tag that begins with one of `ends`, whose "{%" is left.
  Body until(const std::vector<std::string>& ends) {
    const Nesting nesting(in_, depth_);
    Body body;
    while (!in_.is(Token::end)) {
      Statement s;
      s.line = in_.peek().line;
      if (in_.is(Token::data)) {
        s.content = in_.next().text;
      } else if (in_.skip(Token::output_begin)) {
        s.kind = Statement::output;
        s.expression = expressions_.tuple();
        if (!in_.skip(Token::output_end)) in_.refuse("expected '}}', not ", in_.shown());
      } else {
        const std::string& word = in_.peek(1).text;
        if (in_.is(Token::name, {}, 1) && std::find(ends.begin(), ends.end(), word) != ends.end()) return body;
        if (in_.is(Token::name, {}, 1) && (word.starts_with("end") || word == "else" || word == "elif")) {
          if (ends.empty()) return body;
          in_.refuse("'", word, "' where '", ends.back(), "' was expected");
        }
        in_.next();
        if (!in_.is(Token::name)) in_.refuse("expected a statement's name, not ", in_.shown());
        if (!statement(s, body)) continue;
      }
      body.push_back(std::move(s));
    }
    if (!ends.empty()) in_.refuse("'", ends.back(), "' is missing");
    return body;
  }

  void close_tag() {
    if (!in_.skip(Token::block_end)) in_.refuse("expected '%}', not ", in_.shown());
  }
  // "{% WORD %}"
  void end_tag() {
    in_.next();
    in_.next();
    close_tag();
  }

  // False: its statements were put into `into` themselves.
  bool statement(Statement& s, Body& into) {
    const std::string word = in_.peek().text;
    if (std::find(statement_names.begin(), statement_names.end(), word) == statement_names.end()) {
      in_.refuse("there is no statement '", word, "' here.", did_you_mean(word, statement_names));
    }
    in_.next();
    if (word == "if") {
      condition(s);
    } else if (word == "for") {
      loop(s);
    } else if (word == "set") {
      assignment(s);
    } else if (word == "macro") {
      s.kind = Statement::macro;
      s.content = in_.expect_name("the macro's name");
      parameters(s);
      close_tag();
      body_of_function(s, "endmacro");
    } else if (word == "call") {
      s.kind = Statement::call;
      if (in_.is(Token::sign, "(")) parameters(s);
      s.expression = expressions_.without_condition();
      if (s.expression->kind != Expression::call) in_.refuse("'call' asks for a call");
      close_tag();
      body_of_function(s, "endcall");
    } else if (word == "filter") {
      s.kind = Statement::filtered;
      s.expression = filters_of_text(true);
      close_tag();
      s.body = until({"endfilter"});
      end_tag();
    } else if (word == "with") {
      s.kind = Statement::scope;
      while (!in_.is(Token::block_end)) {
        if (!s.parameters.empty()) in_.expect_sign(",");
        s.parameters.push_back(in_.expect_name("a name"));
        in_.expect_sign("=");
        s.defaults.push_back(expressions_.expression());
      }
      close_tag();
      s.body = until({"endwith"});
      end_tag();
    } else if (word == "generation") {  // marks what a model is trained on, and prints as it is
      close_tag();
      for (Statement& inner : until({"endgeneration"})) into.push_back(std::move(inner));
      end_tag();
      return false;
    } else {
      if (loops_ == 0) in_.refuse("'", word, "' stands in no loop");
      s.kind = Statement::leave;
      s.content = word;
      close_tag();
    }
    return true;
  }

  void condition(Statement& s) {
    s.kind = Statement::conditional;
    s.expression = expressions_.tuple(false);
    close_tag();
    s.body = until({"elif", "else", "endif"});
    if (in_.is(Token::name, "elif", 1)) {
      const Nesting nesting(in_, depth_);
      in_.next();
      Statement next;
      next.line = in_.peek().line;
      in_.next();
      condition(next);
      s.otherwise.push_back(std::move(next));
      return;  // the last of them took endif
    }
    if (in_.is(Token::name, "else", 1)) {
      end_tag();
      s.otherwise = until({"endif"});
    }
    end_tag();
  }

  void loop(Statement& s) {
    s.kind = Statement::loop;
    s.target = target(false);
    if (!in_.skip_word("in")) in_.refuse("expected 'in', not ", in_.shown());
    s.expression = expressions_.tuple(false);
    if (in_.skip_word("if")) s.condition = expressions_.expression();
    if (in_.is(Token::name, "recursive")) in_.refuse("'recursive' loops are not supported");
    close_tag();
    ++loops_;
    s.body = until({"else", "endfor"});
    --loops_;
    if (in_.is(Token::name, "else", 1)) {
      end_tag();
      s.otherwise = until({"endfor"});
    }
    end_tag();
  }

  Target target(bool with_attribute) {
    Target t;
    const bool parentheses = in_.skip_sign("(");
    do {
      if (parentheses && in_.is(Token::sign, ")")) break;
      t.names.push_back(in_.expect_name("a name"));
    } while (in_.skip_sign(",") && (t.tuple = true));
    if (parentheses) in_.expect_sign(")");
    if (with_attribute && !t.tuple && in_.skip_sign(".")) t.attribute = in_.expect_name("an attribute's name");
    return t;
  }

  void assignment(Statement& s) {
    s.target = target(true);
    if (in_.skip_sign("=")) {
      s.kind = Statement::assign;
      s.expression = expressions_.tuple();
      close_tag();
      return;
    }
    s.kind = Statement::assign_body;
    s.expression = filters_of_text(false);
    close_tag();
    s.body = until({"endset"});
    end_tag();
  }

  // "upper|trim" or "|upper|trim" over a text that is not there yet.
  ExpressionPointer filters_of_text(bool first) {
    auto text = std::make_unique<Expression>();
    text->line = in_.peek().line;
    text->kind = Expression::name;
    text->text = "";  // the text of the body
    if (!first) return expressions_.filters(std::move(text));
    return expressions_.first_filter(std::move(text));
  }

  void parameters(Statement& s) {
    in_.expect_sign("(");
    while (!in_.skip_sign(")")) {
      s.parameters.push_back(in_.expect_name("a parameter's name"));
      if (in_.skip_sign("=")) {
        s.defaults.push_back(expressions_.expression());
      } else if (!s.defaults.empty()) {
        in_.refuse("a parameter without a default follows one with a default");
      }
      if (!in_.is(Token::sign, ")")) in_.expect_sign(",");
    }
  }

  void body_of_function(Statement& s, const char* end) {
    const int loops = std::exchange(loops_, 0);
    s.body = until({end});
    loops_ = loops;
    end_tag();
  }

  TokenStream in_;
  ExpressionParser expressions_;
  int depth_ = 0, loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) { return StatementParser(source).run(); }

}  // namespace satformer::jinja
