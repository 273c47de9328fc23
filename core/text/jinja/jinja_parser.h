#pragma once
// The recursive-descent parser of templates: statements in jinja_parse_statement.cpp, operators in
// jinja_parse_expression.cpp, operands in jinja_parse_primary.cpp.

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/jinja_ast.h"
#include "core/text/jinja/jinja_lexer.h"

namespace xrun::jinja {

// Parses one template; one object parses once. Throws SyntaxFault for syntax that Jinja 3.1 rejects
// or that xrun does not support.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  // Returns the tree of the whole template.
  Tree run();

 private:
  using EndWords = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& peek(size_t ahead = 0) const;
  const Token& next();
  bool is(TokenKind kind) const { return peek().kind == kind; }
  bool is_operator(std::string_view op) const;
  bool is_word(std::string_view word) const;
  bool is_any_word(EndWords words) const;
  bool skip_operator(std::string_view op);
  bool skip_word(std::string_view word);
  void expect_operator(std::string_view op);
  std::string expect_name();
  void expect(TokenKind kind);
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void unexpected() const;

  // Nodes.
  NodePtr make(NodeKind kind) const;
  NodePtr finish(NodePtr node) const;  // computes and checks the depth
  int symbol(const std::string& name);
  NodePtr binary(std::string_view op, NodePtr a, NodePtr b) const;

  // Statements.
  Body body(EndWords ends);  // stops before a block tag of one of the words
  NodePtr statement();
  NodePtr if_statement();
  NodePtr for_statement();
  NodePtr set_statement();
  NodePtr macro_statement();
  NodePtr call_statement();
  NodePtr filter_statement();
  NodePtr with_statement();
  NodePtr generation_statement();
  NodePtr loop_control(NodeKind kind);
  std::vector<MacroParameter> signature();
  void function_body(Node& node, std::string_view end);
  NodePtr target(bool with_namespace, EndWords ends);
  NodePtr single_target(bool with_namespace);
  void end_block(std::string_view word);

  // Expressions, loosest first; each level parses the next one as its operands.
  //   tuple          expression {"," expression} [","]
  //   expression     or {"if" or ["else" expression]}
  //   or, and        and {"or" and};  not {"and" not}
  //   not            "not" not | comparison
  //   comparison     sum {("==" | "!=" | "<" | "<=" | ">" | ">=" | "in" | "not in") sum}
  //   sum            concatenation {("+" | "-") concatenation}
  //   concatenation  product {"~" product}
  //   product        power {("*" | "/" | "//" | "%") power}
  //   power          unary {"**" unary}, from left to right
  //   unary          [sign] operand {"." name | "[...]" | "(...)"}
  //                  {"|" filter | "is" test | "(...)"}
  NodePtr tuple(bool with_condition, EndWords ends);
  NodePtr expression();
  NodePtr or_expression();
  NodePtr and_expression();
  NodePtr not_expression();
  NodePtr comparison();
  NodePtr sum();
  NodePtr concatenation();
  NodePtr product();
  NodePtr power();
  NodePtr unary(bool with_filter);
  NodePtr primary();
  NodePtr constant(Value value);
  NodePtr number();
  NodePtr list();
  NodePtr dict();
  NodePtr parenthesised();
  NodePtr postfix(NodePtr node);
  NodePtr filters_and_tests(NodePtr node);
  NodePtr filter(NodePtr node, bool inline_name);
  NodePtr test(NodePtr node);
  NodePtr call(NodePtr node);
  NodePtr subscript(NodePtr node);
  NodePtr subscribed(NodePtr node);
  std::vector<Argument> call_arguments();
  bool tuple_ends(EndWords ends) const;

  // Limits the parser's own recursion.
  struct Nesting {
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser.nesting_; }
    Parser& parser;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;       // enclosing loops that break and continue may leave
  SpecialReads reads_;  // by the macro or call block that is being parsed
  Tree tree_;
  std::map<std::string, int> symbols_;
};

}  // namespace xrun::jinja
