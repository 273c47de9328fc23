#pragma once
// The tree of a template: one node type. The comment of each kind lists the fields that it uses.

#include <memory>
#include <string>
#include <vector>

#include "core/text/jinja/jinja_value.h"

namespace xrun::jinja {

// A syntax error; `line` is 1-based.
class SyntaxFault : public Error {
 public:
  SyntaxFault(std::string message, int line) : Error(std::move(message)), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

enum class NodeKind : uint8_t {
  // Expressions.
  kConst,      // constant
  kName,       // symbol
  kList,       // items
  kTuple,      // items; also a target
  kDict,       // items: key, value, key, value, ...
  kAttribute,  // a.name
  kItem,       // a[b]
  kSlice,      // a[items[0]:items[1]:items[2]], each may be null
  kCall,       // a(arguments)
  kFilter,     // a|name(arguments); a is null in front of a block
  kTest,       // a is name(arguments)
  kNot,
  kNegative,
  kPositive,  // a
  kAnd,
  kOr,               // a, b
  kBinary,           // a name b, name is the operator
  kConcat,           // items
  kCompare,          // a, then names[i] items[i]
  kCondition,        // a if b else c (c may be null)
  kNamespaceTarget,  // symbol.name, only as a target
  // Statements.
  kData,         // constant
  kOutput,       // a
  kIf,           // tests in items, bodies; an extra body is the else
  kFor,          // target a, iterable b, filter c or null; bodies[0], bodies[1] is the else
  kSet,          // target a, value b
  kSetBlock,     // target a, filter b or null, bodies[0]
  kMacro,        // symbol, name, parameters, reads, bodies[0]
  kCallBlock,    // call a, parameters, reads, bodies[0]
  kFilterBlock,  // filter b, bodies[0]
  kWith,         // targets and values alternate in items, bodies[0]
  kGeneration,   // bodies[0]
  kBreak,
  kContinue,
};

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Body = std::vector<NodePtr>;

enum class ArgumentForm : uint8_t { kPlain, kNamed, kStar, kDoubleStar };

struct Argument {
  ArgumentForm form;
  std::string name;
  NodePtr value;
};

struct MacroParameter {
  int symbol;
  std::string name;
  NodePtr default_value;  // or null
};

// The special variables that a macro's body reads. As in Jinja, only a macro that reads `caller`
// can be the target of a call block, and surplus arguments need `varargs` or `kwargs`.
struct SpecialReads {
  bool caller = false, varargs = false, kwargs = false;
};

struct Node {
  NodeKind kind;
  int line = 0;
  int depth = 1;  // of the subtree; limited, so that walking it cannot exhaust the stack
  int symbol = -1;
  bool recursive = false;
  std::string name;
  Value constant;
  NodePtr a, b, c;
  std::vector<NodePtr> items;
  std::vector<std::string> names;
  std::vector<Body> bodies;
  std::vector<Argument> arguments;
  std::vector<MacroParameter> parameters;
  SpecialReads reads;
};

// A parsed template. `symbols` holds the names that it reads or writes; Node::symbol indexes them.
struct Tree {
  Body body;
  std::vector<std::string> symbols;
  std::vector<Value> globals;  // for each symbol, the function of the environment or undefined
  bool marks_generation = false;

  int symbol_of(std::string_view name) const;  // -1: the template never mentions it
};

// Parses a template. Throws SyntaxFault for syntax that Jinja 3.1 rejects or that xrun does not
// support.
Tree parse_template(std::string_view source);

}  // namespace xrun::jinja
