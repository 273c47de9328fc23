// Statements: those of Jinja 3.1 that chat templates use, loop controls, and transformers'
// generation block.

#include <utility>

#include "core/text/jinja/jinja_parser.h"

namespace xrun::jinja {

Body Parser::body(EndWords ends) {
  const Nesting nesting(*this);
  Body out;
  while (!is(TokenKind::kEnd)) {
    if (is(TokenKind::kData)) {
      NodePtr node = make(NodeKind::kData);
      node->constant = Value::text(next().text);
      out.push_back(std::move(node));
    } else if (is(TokenKind::kVariableBegin)) {
      next();
      NodePtr node = make(NodeKind::kOutput);
      node->a = tuple(true, {});
      expect(TokenKind::kVariableEnd);
      out.push_back(finish(std::move(node)));
    } else {
      expect(TokenKind::kBlockBegin);
      // Without consuming it: the statement decides which end this is.
      if (is_any_word(ends)) return out;
      NodePtr node = statement();
      expect(TokenKind::kBlockEnd);
      out.push_back(finish(std::move(node)));
    }
  }
  if (ends.size() > 0)
    fail(fmt::format("unexpected end of template, expected '{}'", *ends.begin()));
  return out;
}

// Parses a statement from its word up to, but excluding, the end of its last tag.
NodePtr Parser::statement() {
  if (!is(TokenKind::kName)) fail("tag name expected");
  const std::string word = peek().text;
  if (word == "if") return if_statement();
  if (word == "for") return for_statement();
  if (word == "macro") return macro_statement();
  if (word == "call") return call_statement();
  if (word == "filter") return filter_statement();
  if (word == "with") return with_statement();
  if (word == "generation") return generation_statement();
  if (word == "break") return loop_control(NodeKind::kBreak);
  if (word == "continue") return loop_control(NodeKind::kContinue);
  if (word == "set") return set_statement();
  // A chat template is one file, so tags that read others are refused.
  for (std::string_view file_tag : {"include", "import", "from", "extends", "block"}) {
    if (word == file_tag) fail(fmt::format("'{}' is not supported in chat templates", word));
  }
  fail(fmt::format("Encountered unknown tag '{}'.", word));
}

// Consumes the word after a body but not the end of its tag.
void Parser::end_block(std::string_view word) {
  if (!skip_word(word)) fail(fmt::format("expected '{}'", word));
}

NodePtr Parser::if_statement() {
  NodePtr node = make(NodeKind::kIf);
  while (true) {
    next();  // if or elif
    // bodies[i] belongs to items[i]; one body more is the else.
    node->items.push_back(tuple(false, {}));
    expect(TokenKind::kBlockEnd);
    node->bodies.push_back(body({"elif", "else", "endif"}));
    if (is_word("elif")) continue;
    if (skip_word("else")) {
      expect(TokenKind::kBlockEnd);
      node->bodies.push_back(body({"endif"}));
    }
    end_block("endif");
    return node;
  }
}

NodePtr Parser::for_statement() {
  NodePtr node = make(NodeKind::kFor);
  next();
  node->a = target(false, {"in"});
  if (!skip_word("in")) fail("expected 'in'");
  // Without `if`: that word begins the loop's filter, and `recursive` ends the list.
  node->b = tuple(false, {"recursive"});
  if (skip_word("if")) node->c = expression();
  node->recursive = skip_word("recursive");
  expect(TokenKind::kBlockEnd);
  ++loops_;
  node->bodies.push_back(body({"endfor", "else"}));
  --loops_;
  // In the else part `break` would leave a loop around this one.
  if (skip_word("else")) {
    expect(TokenKind::kBlockEnd);
    // A recursive loop is a function, which `break` cannot leave.
    const int loops = node->recursive ? std::exchange(loops_, 0) : loops_;
    node->bodies.push_back(body({"endfor"}));
    loops_ = loops;
  }
  end_block("endfor");
  return node;
}

NodePtr Parser::set_statement() {
  next();
  NodePtr node = make(NodeKind::kSet);
  node->a = target(true, {});
  if (skip_operator("=")) {
    node->b = tuple(true, {});
    return node;
  }
  node->kind = NodeKind::kSetBlock;
  // The text of the block is the input.
  if (is_operator("|")) node->b = filter(nullptr, false);
  expect(TokenKind::kBlockEnd);
  node->bodies.push_back(body({"endset"}));
  end_block("endset");
  return node;
}

std::vector<MacroParameter> Parser::signature() {
  std::vector<MacroParameter> parameters;
  expect_operator("(");
  while (!is_operator(")")) {
    if (!parameters.empty()) expect_operator(",");
    MacroParameter parameter;
    parameter.name = expect_name();
    parameter.symbol = symbol(parameter.name);
    if (skip_operator("=")) {
      parameter.default_value = expression();
    } else if (!parameters.empty() && parameters.back().default_value != nullptr) {
      fail("non-default argument follows default argument");
    }
    parameters.push_back(std::move(parameter));
  }
  next();
  return parameters;
}

// Parses the body of a macro or call block, which is a function: `break` cannot leave a loop around
// it, and it takes the special variables that it reads itself.
void Parser::function_body(Node& node, std::string_view end) {
  expect(TokenKind::kBlockEnd);
  const int loops = std::exchange(loops_, 0);
  const SpecialReads outer = std::exchange(reads_, {});
  node.bodies.push_back(body({end}));
  node.reads = reads_;
  // As in Jinja, what an inner macro reads counts for the outer one too.
  reads_ = {outer.caller || reads_.caller, outer.varargs || reads_.varargs,
            outer.kwargs || reads_.kwargs};
  loops_ = loops;
  end_block(end);
}

NodePtr Parser::macro_statement() {
  NodePtr node = make(NodeKind::kMacro);
  next();
  node->name = expect_name();
  node->symbol = symbol(node->name);
  node->parameters = signature();
  function_body(*node, "endmacro");
  if (is(TokenKind::kName)) next();  // endmacro may repeat the name
  return node;
}

NodePtr Parser::call_statement() {
  // The block becomes a macro, `caller`, for the macro that is called.
  NodePtr node = make(NodeKind::kCallBlock);
  next();
  if (is_operator("(")) node->parameters = signature();
  node->a = expression();
  if (node->a->kind != NodeKind::kCall) fail("expected call");
  function_body(*node, "endcall");
  return node;
}

NodePtr Parser::filter_statement() {
  NodePtr node = make(NodeKind::kFilterBlock);
  next();
  node->b = filter(nullptr, true);
  expect(TokenKind::kBlockEnd);
  node->bodies.push_back(body({"endfilter"}));
  end_block("endfilter");
  return node;
}

NodePtr Parser::with_statement() {
  NodePtr node = make(NodeKind::kWith);
  next();
  while (!is(TokenKind::kBlockEnd)) {
    if (!node->items.empty()) expect_operator(",");
    node->items.push_back(target(false, {}));
    expect_operator("=");
    node->items.push_back(expression());
  }
  next();
  node->bodies.push_back(body({"endwith"}));
  end_block("endwith");
  return node;
}

NodePtr Parser::generation_statement() {
  NodePtr node = make(NodeKind::kGeneration);
  next();
  expect(TokenKind::kBlockEnd);
  // A scope, as in transformers, where it is a call block.
  const int loops = std::exchange(loops_, 0);
  node->bodies.push_back(body({"endgeneration"}));
  loops_ = loops;
  end_block("endgeneration");
  tree_.marks_generation = true;
  return node;
}

NodePtr Parser::loop_control(NodeKind kind) {
  if (loops_ == 0) fail(fmt::format("'{}' outside of a loop", peek().text));
  NodePtr node = make(kind);
  next();
  return node;
}

NodePtr Parser::single_target(bool with_namespace) {
  // Parentheses group targets: for (a, b) in pairs.
  if (skip_operator("(")) {
    NodePtr inner = target(with_namespace, {});
    expect_operator(")");
    return inner;
  }
  NodePtr node = make(NodeKind::kName);
  const std::string name = expect_name();
  for (std::string_view reserved : {"true", "false", "none", "True", "False", "None"}) {
    if (name == reserved) fail(fmt::format("can't assign to '{}'", name));
  }
  node->symbol = symbol(name);
  // `set ns.x = ...`: only a namespace can be changed from an inner scope.
  if (with_namespace && skip_operator(".")) {
    node->kind = NodeKind::kNamespaceTarget;
    node->name = expect_name();
  }
  return node;
}

NodePtr Parser::target(bool with_namespace, EndWords ends) {
  const Nesting nesting(*this);
  NodePtr first = single_target(with_namespace);
  if (!is_operator(",")) return first;
  NodePtr node = make(NodeKind::kTuple);
  node->items.push_back(std::move(first));
  while (skip_operator(",")) {
    // `for a, in pairs`: a tuple of one.
    if (is_any_word(ends) || is_operator("=") || is_operator(")")) break;
    node->items.push_back(single_target(with_namespace));
  }
  return finish(std::move(node));
}

}  // namespace xrun::jinja
