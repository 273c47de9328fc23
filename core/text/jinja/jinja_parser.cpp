// Tokens and nodes. Two limits keep a hostile template from exhausting the stack: of the parser's
// own recursion, and of the tree that evaluation walks.

#include "core/text/jinja/jinja_parser.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_builtins.h"

namespace xrun::jinja {

namespace {

// The tree has its own limit: a + b + c + ... and x|f|g|... nest it without recursion here.
constexpr int kMaxNesting = 150;
constexpr int kMaxTreeDepth = 400;

}  // namespace

Tree parse_template(std::string_view source) { return Parser(tokenize_template(source)).run(); }

Tree Parser::run() {
  tree_.body = body({});
  if (!is(TokenKind::kEnd)) unexpected();
  // Resolved once per template, so that a look-up at run time is an index. Every name gets its
  // function, or undefined if the environment has none.
  for (const std::string& name : tree_.symbols) tree_.globals.push_back(global_function(name));
  return std::move(tree_);
}

int Tree::symbol_of(std::string_view name) const {
  const auto found = std::find(symbols.begin(), symbols.end(), name);
  return found == symbols.end() ? -1 : static_cast<int>(found - symbols.begin());
}

Parser::Nesting::Nesting(Parser& owner) : parser(owner) {
  if (++parser.nesting_ > kMaxNesting) parser.fail("the template nests too deeply");
}

const Token& Parser::peek(size_t ahead) const {
  // The last token is kEnd, which is never passed: reading beyond it gives it again.
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}

const Token& Parser::next() {
  const Token& token = peek();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::is_operator(std::string_view op) const {
  return is(TokenKind::kOperator) && peek().text == op;
}
bool Parser::is_word(std::string_view word) const {
  return is(TokenKind::kName) && peek().text == word;
}
bool Parser::is_any_word(EndWords words) const {
  return std::any_of(words.begin(), words.end(), [this](auto word) { return is_word(word); });
}

bool Parser::skip_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  next();
  return true;
}

bool Parser::skip_word(std::string_view word) {
  if (!is_word(word)) return false;
  next();
  return true;
}

void Parser::expect_operator(std::string_view op) {
  if (!is_operator(op)) fail(fmt::format("expected '{}'", op));
  next();
}

std::string Parser::expect_name() {
  if (!is(TokenKind::kName)) fail("expected a name");
  return next().text;
}

void Parser::expect(TokenKind kind) {
  if (!is(kind)) unexpected();
  next();
}

void Parser::fail(const std::string& message) const { throw SyntaxFault(message, peek().line); }

void Parser::unexpected() const {
  switch (peek().kind) {
    case TokenKind::kEnd: fail("unexpected end of template");
    case TokenKind::kBlockEnd: fail("unexpected '%}'");
    case TokenKind::kVariableEnd: fail("unexpected '}}'");
    default: fail(fmt::format("unexpected '{}'", shortened(peek().text, 40)));
  }
}

NodePtr Parser::make(NodeKind kind) const {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->line = peek().line;
  return node;
}

// Called once a node has its children: sets the depth that bounds evaluation.
NodePtr Parser::finish(NodePtr node) const {
  int depth = 0;
  const auto see = [&](const NodePtr& child) {
    if (child != nullptr) depth = std::max(depth, child->depth);
  };
  for (const NodePtr* child : {&node->a, &node->b, &node->c}) see(*child);
  for (const NodePtr& item : node->items) see(item);
  for (const Body& part : node->bodies) std::for_each(part.begin(), part.end(), see);
  for (const Argument& argument : node->arguments) see(argument.value);
  for (const MacroParameter& parameter : node->parameters) see(parameter.default_value);
  node->depth = depth + 1;
  if (node->depth > kMaxTreeDepth) fail("the template nests too deeply");
  return node;
}

int Parser::symbol(const std::string& name) {
  // From here on a name is a number, since scopes compare integers.
  const auto [it, added] = symbols_.try_emplace(name, static_cast<int>(tree_.symbols.size()));
  if (added) tree_.symbols.push_back(name);
  return it->second;
}

}  // namespace xrun::jinja
