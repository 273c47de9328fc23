// Operators by precedence, lowest first: if-else, or, and, not, comparisons, + -, ~, * / // %, **,
// signs. Their operands are in jinja_parse_primary.cpp.

#include "core/text/jinja/jinja_parser.h"

namespace xrun::jinja {

bool Parser::tuple_ends(EndWords ends) const {
  return is(TokenKind::kVariableEnd) || is(TokenKind::kBlockEnd) || is_operator(")") ||
         is_any_word(ends);
}

// One expression, or a tuple of comma-separated ones.
NodePtr Parser::tuple(bool with_condition, EndWords ends) {
  NodePtr node = make(NodeKind::kTuple);
  bool commas = false;  // a trailing comma makes a tuple of one item
  while (!tuple_ends(ends)) {
    // In `for x in xs if f` the `if` is the filter of the loop, not a condition.
    node->items.push_back(with_condition ? expression() : or_expression());
    if (!skip_operator(",")) break;
    commas = true;
  }
  if (node->items.empty()) fail("Expected an expression");
  if (!commas) return std::move(node->items[0]);
  return finish(std::move(node));
}

NodePtr Parser::expression() {
  const Nesting nesting(*this);
  NodePtr value = or_expression();
  while (is_word("if")) {
    NodePtr node = make(NodeKind::kCondition);
    next();
    node->a = std::move(value);
    node->b = or_expression();
    // `else c if d else e` nests in the else.
    if (skip_word("else")) node->c = expression();
    value = finish(std::move(node));
  }
  return value;
}

NodePtr Parser::or_expression() {
  NodePtr left = and_expression();
  while (is_word("or")) {
    NodePtr node = make(NodeKind::kOr);
    next();
    node->a = std::move(left);
    node->b = and_expression();
    left = finish(std::move(node));
  }
  return left;
}

NodePtr Parser::and_expression() {
  NodePtr left = not_expression();
  while (is_word("and")) {
    NodePtr node = make(NodeKind::kAnd);
    next();
    node->a = std::move(left);
    node->b = not_expression();
    left = finish(std::move(node));
  }
  return left;
}

NodePtr Parser::not_expression() {
  // not a == b is not (a == b).
  if (!is_word("not")) return comparison();
  const Nesting nesting(*this);
  NodePtr node = make(NodeKind::kNot);
  next();
  node->a = not_expression();
  return finish(std::move(node));
}

NodePtr Parser::comparison() {
  // One node for the chain a < b < c, which evaluates b once.
  NodePtr node = make(NodeKind::kCompare);
  NodePtr first = sum();
  while (true) {
    std::string op;
    if (is(TokenKind::kOperator)) {
      // The longest match is not needed: the lexer has already cut the operator.
      for (std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
        if (is_operator(known)) op = known;
      }
    } else if (is_word("in")) {
      op = "in";
    } else if (is_word("not") && peek(1).kind == TokenKind::kName && peek(1).text == "in") {
      op = "not in";
      next();
    }
    if (op.empty()) break;
    next();
    node->names.push_back(op);
    node->items.push_back(sum());
  }
  if (node->items.empty()) return first;
  node->a = std::move(first);
  return finish(std::move(node));
}

NodePtr Parser::binary(std::string_view op, NodePtr a, NodePtr b) const {
  NodePtr node = make(NodeKind::kBinary);
  // The line of the left operand, where the expression begins.
  node->line = a->line;
  node->name = op;
  node->a = std::move(a);
  node->b = std::move(b);
  return finish(std::move(node));
}

NodePtr Parser::sum() {
  NodePtr left = concatenation();
  while (is_operator("+") || is_operator("-")) {
    const std::string op = next().text;
    left = binary(op, std::move(left), concatenation());
  }
  return left;
}

NodePtr Parser::concatenation() {
  // Tighter than + and -: a + b ~ c is a + (b ~ c).
  NodePtr first = product();
  if (!is_operator("~")) return first;
  NodePtr node = make(NodeKind::kConcat);
  node->items.push_back(std::move(first));
  while (skip_operator("~")) node->items.push_back(product());
  return finish(std::move(node));
}

NodePtr Parser::product() {
  NodePtr left = power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    const std::string op = next().text;
    left = binary(op, std::move(left), power());
  }
  return left;
}

NodePtr Parser::power() {
  NodePtr left = unary(true);
  // Left to right, as in Jinja 3.1; Python groups to the right.
  while (skip_operator("**")) left = binary("**", std::move(left), unary(true));
  return left;
}

NodePtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  NodePtr node;
  if (is_operator("-") || is_operator("+")) {
    node = make(is_operator("-") ? NodeKind::kNegative : NodeKind::kPositive);
    next();
    node->a = unary(false);
    node = finish(std::move(node));
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  // A sign binds before filters: -1|abs is (-1)|abs.
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace xrun::jinja
