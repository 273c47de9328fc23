// What follows a primary: attributes, subscripts, calls, filters, tests.

#include "core/text/jinja/jinja_parser.h"

namespace xrun::jinja {

NodePtr Parser::postfix(NodePtr node) {
  while (true) {
    if (is_operator(".") || is_operator("[")) {
      node = subscript(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

NodePtr Parser::filters_and_tests(NodePtr node) {
  while (true) {
    if (is_operator("|")) {
      node = filter(std::move(node), false);
    } else if (is_word("is")) {
      node = test(std::move(node));
    } else if (is_operator("(")) {
      node = call(std::move(node));
    } else {
      return node;
    }
  }
}

// `|name(...)|name(...)`; a filter block has its first name without the bar.
NodePtr Parser::filter(NodePtr node, bool inline_name) {
  while (inline_name || is_operator("|")) {
    if (!inline_name) next();
    inline_name = false;
    NodePtr out = make(NodeKind::kFilter);
    out->name = expect_name();
    while (skip_operator(".")) out->name += "." + expect_name();
    if (is_operator("(")) out->arguments = call_arguments();
    out->a = std::move(node);
    node = finish(std::move(out));
  }
  return node;
}

NodePtr Parser::test(NodePtr node) {
  NodePtr out = make(NodeKind::kTest);
  next();
  const bool negated = skip_word("not");
  out->name = expect_name();
  while (skip_operator(".")) out->name += "." + expect_name();
  out->a = std::move(node);
  const bool value = is(TokenKind::kName) || is(TokenKind::kString) || is(TokenKind::kInteger) ||
                     is(TokenKind::kFloat) || is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    out->arguments = call_arguments();
  } else if (value && !is_any_word({"else", "or", "and"})) {
    if (is_word("is")) fail("You cannot chain multiple tests with is");
    // As in Jinja the argument of a test is a primary: `x is divisibleby 3`, never an operation; and
    // whatever name follows is one, so that `x is string if y` does not parse.
    out->arguments.push_back({ArgumentForm::kPlain, "", postfix(primary())});
  }
  out = finish(std::move(out));
  if (!negated) return out;
  NodePtr inverse = make(NodeKind::kNot);
  inverse->a = std::move(out);
  return finish(std::move(inverse));
}

NodePtr Parser::call(NodePtr node) {
  NodePtr out = make(NodeKind::kCall);
  out->a = std::move(node);
  out->arguments = call_arguments();
  return finish(std::move(out));
}

std::vector<Argument> Parser::call_arguments() {
  const Nesting nesting(*this);
  std::vector<Argument> arguments;
  expect_operator("(");
  while (!is_operator(")")) {
    if (!arguments.empty()) expect_operator(",");
    if (is_operator(")")) break;
    Argument argument{ArgumentForm::kPlain, "", nullptr};
    if (skip_operator("**")) {
      argument.form = ArgumentForm::kDoubleStar;
    } else if (skip_operator("*")) {
      argument.form = ArgumentForm::kStar;
    } else if (is(TokenKind::kName) && peek(1).kind == TokenKind::kOperator &&
               peek(1).text == "=") {
      argument.form = ArgumentForm::kNamed;
      argument.name = expect_name();
      next();
    } else if (!arguments.empty() && arguments.back().form >= ArgumentForm::kNamed &&
               arguments.back().form != ArgumentForm::kStar) {
      fail("invalid syntax for function call expression");
    }
    argument.value = expression();
    arguments.push_back(std::move(argument));
  }
  next();
  return arguments;
}

NodePtr Parser::subscript(NodePtr node) {
  if (skip_operator("[")) return subscribed(std::move(node));
  NodePtr out = make(NodeKind::kAttribute);
  next();  // .
  out->a = std::move(node);
  if (is(TokenKind::kInteger)) {
    out->kind = NodeKind::kItem;
    out->b = number();
  } else {
    out->name = expect_name();
  }
  return finish(std::move(out));
}

// What stands in brackets: an index, a slice, or a tuple of indices.
NodePtr Parser::subscribed(NodePtr node) {
  NodePtr out = make(NodeKind::kItem);
  out->a = std::move(node);
  NodePtr first;
  if (!is_operator(":")) first = expression();
  if (is_operator(":")) {
    out->kind = NodeKind::kSlice;
    out->items.resize(3);
    out->items[0] = std::move(first);
    for (size_t part = 1; part < 3 && skip_operator(":"); ++part) {
      if (!is_operator(":") && !is_operator("]")) out->items[part] = expression();
    }
  } else if (is_operator(",")) {
    out->b = make(NodeKind::kTuple);
    out->b->items.push_back(std::move(first));
    while (skip_operator(",") && !is_operator("]")) out->b->items.push_back(expression());
    out->b = finish(std::move(out->b));
  } else {
    out->b = std::move(first);
  }
  expect_operator("]");
  return finish(std::move(out));
}

}  // namespace xrun::jinja
