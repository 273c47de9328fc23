// Operands: names, literals and brackets, then what follows them: attributes, items, calls, filters
// and tests.

#include <charconv>
#include <cstdlib>

#include "core/text/jinja/jinja_parser.h"

namespace xrun::jinja {

NodePtr Parser::constant(Value value) {
  NodePtr node = make(NodeKind::kConst);
  node->constant = std::move(value);
  return node;
}

NodePtr Parser::primary() {
  switch (peek().kind) {
    case TokenKind::kName: {
      // Jinja accepts both spellings.
      for (std::string_view word : {"true", "True", "false", "False"}) {
        if (skip_word(word)) return constant(Value::boolean(word[0] == 't' || word[0] == 'T'));
      }
      if (skip_word("none") || skip_word("None")) return constant(Value::none());
      NodePtr node = make(NodeKind::kName);
      node->name = next().text;
      node->symbol = symbol(node->name);
      reads_.caller |= node->name == "caller";
      reads_.varargs |= node->name == "varargs";
      reads_.kwargs |= node->name == "kwargs";
      return node;
    }
    case TokenKind::kString: {
      std::string text;
      NodePtr node = make(NodeKind::kConst);
      while (is(TokenKind::kString)) text += next().text;  // adjacent literals are one string
      node->constant = Value::text(text);
      return node;
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat: return number();
    default: break;
  }
  if (is_operator("(")) return parenthesised();
  if (is_operator("[")) return list();
  if (is_operator("{")) return dict();
  unexpected();
}

NodePtr Parser::number() {
  const Token& token = next();
  if (token.kind == TokenKind::kFloat) {
    return constant(Value::number(std::strtod(token.text.c_str(), nullptr)));
  }
  // 0x1F, 0o17, 0b11: the second character is a letter.
  const bool based = token.text.size() > 2 && token.text[0] == '0' && token.text[1] > '9';
  const char type = based ? static_cast<char>(token.text[1] | 0x20) : 0;
  const int base = type == 'x' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const char* begin = token.text.data() + (based ? 2 : 0);
  const char* end = token.text.data() + token.text.size();
  int64_t value = 0;
  const auto result = std::from_chars(begin, end, value, base);
  if (result.ec != std::errc() || result.ptr != end) {
    throw SyntaxFault(fmt::format("'{}' is not a 64-bit integer", token.text.substr(0, 40)),
                      token.line);
  }
  return constant(Value::integer(value));
}

NodePtr Parser::parenthesised() {
  const Nesting nesting(*this);
  next();
  if (skip_operator(")")) return make(NodeKind::kTuple);
  NodePtr node = tuple(true, {});
  expect_operator(")");
  return node;
}

NodePtr Parser::list() {
  const Nesting nesting(*this);
  NodePtr node = make(NodeKind::kList);
  next();
  while (!is_operator("]")) {
    // A comma may follow the last item, in all three kinds of brackets.
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node->items.push_back(expression());
  }
  next();
  return finish(std::move(node));
}

NodePtr Parser::dict() {
  const Nesting nesting(*this);
  NodePtr node = make(NodeKind::kDict);
  next();
  while (!is_operator("}")) {
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("}")) break;
    node->items.push_back(expression());
    expect_operator(":");
    node->items.push_back(expression());
  }
  next();
  return finish(std::move(node));
}

NodePtr Parser::postfix(NodePtr node) {
  while (true) {
    // Before any filter: a.b[0](c)|f.
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
      // The result of a filter or a test may be called.
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
  // `x is not defined` is not (x is defined).
  const bool negated = skip_word("not");
  out->name = expect_name();
  while (skip_operator(".")) out->name += "." + expect_name();
  out->a = std::move(node);
  // A token that begins a primary expression.
  const bool value = is(TokenKind::kName) || is(TokenKind::kString) || is(TokenKind::kInteger) ||
                     is(TokenKind::kFloat) || is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    out->arguments = call_arguments();
  } else if (value && !is_any_word({"else", "or", "and"})) {
    // These words continue the expression around the test.
    if (is_word("is")) fail("You cannot chain multiple tests with is");
    // As in Jinja the argument of a test is a primary (`x is eq 3`), never an operation. Any name
    // that follows is one, so `x is string if y` does not parse.
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
      // A plain argument may follow *values, but not a named one or **values.
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
    // `x.0` is x[0].
    out->kind = NodeKind::kItem;
    out->b = number();
  } else {
    out->name = expect_name();
  }
  return finish(std::move(out));
}

// Parses the contents of brackets: an index, a slice, or a tuple of indices.
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
      // A part that is left out stays null.
      if (!is_operator(":") && !is_operator("]")) out->items[part] = expression();
    }
  } else if (is_operator(",")) {
    out->b = make(NodeKind::kTuple);
    out->b->items.push_back(std::move(first));
    // A tuple as an index, as a[1, 2]; only dicts can have such a key.
    while (skip_operator(",") && !is_operator("]")) out->b->items.push_back(expression());
    out->b = finish(std::move(out->b));
  } else {
    out->b = std::move(first);
  }
  expect_operator("]");
  return finish(std::move(out));
}

}  // namespace xrun::jinja
