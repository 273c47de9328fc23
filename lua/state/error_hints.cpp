// One row per known message of Lua or LibTorch without a fix: a piece of the message, then the fix.
// The tokens of the line tell what the message alone does not.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/config/lua_lexer.h"
#include "core/config/wide_signs.h"
#include "lua/state/error_report.h"

namespace xrun {
namespace {

using Hint = std::pair<std::string_view, std::string_view>;

// In order: the first piece that the message contains decides.
constexpr std::array kHints = {
    Hint{"attempt to compare",
         "comparing tensors with < gives one boolean; use :lt, :le, :gt, :ge, :eq element by "
         "element, or :item() for the number"},
    Hint{"must match the size of tensor b",
         "shapes broadcast from the right: sizes must be equal or 1; :unsqueeze(dim) adds a 1"},
    Hint{"shapes cannot be multiplied",
         "matmul multiplies [n,k] by [k,m]; :t() or :transpose(-1, -2) swaps the last two dims"},
    Hint{"does not require grad and does not have a grad_fn",
         "no input of it requires grad: was it made under xrun.no_grad, or by xrun.keep, which "
         "detaches?"},
    Hint{"objective failed: Trying to backward through the graph",
         "it uses a tensor of an earlier backward: compute it inside the objective, or detach it "
         "with xrun.keep; an objective calls no :backward(), since the step does"},
    Hint{"backward through the graph a second time",
         "the first backward freed the graph; pass { retain_graph = true } to it"},
    Hint{"modified by an inplace operation",
         "a tensor that the backward needs was changed after its use; in the objective use the "
         "methods without a trailing _"},
    Hint{"grad can be implicitly created only for scalar outputs",
         "reduce first (:sum(), :mean()), or pass the gradient of the output"},
    Hint{
        "could not infer output dtype",
        "whole numbers make i64 tensors, as 2 is 2.0 in Lua; pass { dtype = \"f32\" } or :float()"},
    Hint{"can't be cast to the desired output type", "convert first, as in x:float()"},
    Hint{"a leaf Variable that requires grad is being used in an in-place operation",
         "use the form without the trailing _ or wrap the change in xrun.no_grad(function() ... "
         "end)"},
    Hint{"a view of a leaf Variable that requires grad",
         "use the form without the trailing _ or wrap the change in xrun.no_grad(function() ... "
         "end)"},
    Hint{"tensors used as indices must be", "convert the index with :long() or :bool()"},
    Hint{"near 'repeat'", "`repeat` is a keyword of Lua; the method is :tile(...)"},
    Hint{"near '#'", "a comment in Lua begins with --"},
    Hint{"Dimension out of range", "dimensions count from 0, or from -1 at the end"},
    Hint{"stack overflow", "a function calls itself without a limit"},
};

using Tokens = std::vector<LuaToken>;

// Returns true if the signs stand side by side from `at` on; each is one byte.
bool signs_at(const Tokens& tokens, size_t at, std::string_view signs) {
  for (size_t k = 0; k < signs.size(); ++k) {
    if (at + k >= tokens.size() || !is_sign(tokens[at + k], signs.substr(k, 1))) return false;
    if (k > 0 && tokens[at + k].begin != tokens[at + k - 1].end) return false;
  }
  return true;
}

bool has_name(const Tokens& tokens, std::string_view text) {
  return std::any_of(tokens.begin(), tokens.end(),
                     [&](const LuaToken& token) { return is_name(token, text); });
}

// f"...": a string right behind the name.
bool has_f_string(const Tokens& tokens) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!is_name(tokens[i], "f") || tokens[i].end != tokens[i + 1].begin) continue;
    if (tokens[i + 1].kind == LuaTokenKind::kString) return true;
  }
  return false;
}

// A string right before a sign: '%d' % 3, { "key": 1 }.
bool has_string_before(const Tokens& tokens, std::string_view sign) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (tokens[i].kind == LuaTokenKind::kString && is_sign(tokens[i + 1], sign)) return true;
  }
  return false;
}

// { margin: h }: a name behind { or a comma, a colon, and no call of a method.
bool has_colon_key(const Tokens& tokens) {
  for (size_t i = 1; i + 3 < tokens.size(); ++i) {
    if (!is_sign(tokens[i - 1], "{") && !is_sign(tokens[i - 1], ",")) continue;
    if (tokens[i].kind != LuaTokenKind::kName || !is_sign(tokens[i + 1], ":")) continue;
    if (tokens[i + 2].kind != LuaTokenKind::kName || !is_sign(tokens[i + 3], "(")) return true;
  }
  return false;
}

// x.shape[0]
bool has_shape_of_zero(const Tokens& tokens) {
  for (size_t i = 1; i + 3 < tokens.size(); ++i) {
    const bool zero = tokens[i + 2].kind == LuaTokenKind::kNumber && tokens[i + 2].number == 0;
    if (is_name(tokens[i], "shape") && is_sign(tokens[i + 1], "[") && zero) return true;
  }
  return false;
}

constexpr std::string_view kFString =
    "Lua has no f\"...\"; join with .., as in \"loss \" .. x, or use string.format(\"%g\", x)";

// Habits from other languages, found by the words and signs of a line that Lua cannot read.
constexpr std::array kHabitSigns = {
    Hint{"!=", "Lua writes ~= for not equal"},
    Hint{"!", "Lua writes `not x`"},
    Hint{"**", "Lua writes x ^ y for a power"},
    Hint{"//",
         "Lua has no //; write math.floor(x / y), of tensors (x / y):floor(); a comment begins "
         "with --"},
    Hint{"&&", "Lua writes `and`"},
    Hint{"||", "Lua writes `or`"},
    Hint{"++", "Lua has no ++; write x = x + 1"},
    Hint{"+=", "Lua has no +=; write x = x + y"},
    Hint{"-=", "Lua has no -=; write x = x - y"},
    Hint{"*=", "Lua has no *=; write x = x * y"},
    Hint{"/=", "Lua has no /=; write x = x / y"},
};
constexpr std::array kHabitWords = {
    Hint{"def", "a function in Lua: local function name(x) ... end"},
    Hint{"import", "Lua loads a module by local xrun = require \"xrun\""},
    Hint{"elif", "Lua writes elseif ... then"},
    Hint{"continue",
         "Lua has no continue; put the rest of the body in if ... end, or write goto next there "
         "and ::next:: before the loop's end"},
    Hint{"range", "Lua writes for i = 0, n - 1 do ... end"},
    Hint{"try", "Lua has no try; write local ok, e = pcall(function() ... end)"},
    Hint{"no_grad", "write xrun.no_grad(function() ... end)"},
    Hint{"with", "Lua has no with"},
    Hint{"lambda", "a function without a name in Lua: function(x) return x end"},
    Hint{"None", "Lua writes nil, and x == nil"},
    Hint{"True", "Lua writes true"},
    Hint{"False", "Lua writes false"},
};

// Names of Python that a call finds undefined.
constexpr std::array kHabitNames = {
    Hint{"None", "Lua writes nil"},
    Hint{"True", "Lua writes true"},
    Hint{"False", "Lua writes false"},
    Hint{"len",
         "Lua writes #x; the tokens of each answer are a field: batch.length, p.chosen.length"},
    Hint{"range", "Lua writes for i = 0, n - 1 do ... end"},
    Hint{"enumerate", "Lua writes for i, x in ipairs(list) do ... end, with i from 1"},
    Hint{"str", "Lua writes tostring(x)"},
    Hint{"int", "Lua writes math.floor(x), and tonumber(x) of a string"},
    Hint{"float", "Lua writes tonumber(x)"},
};

std::string habit_hint(std::string_view message, const Tokens& tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (const auto& [signs, hint] : kHabitSigns) {
      if (signs_at(tokens, i, signs)) return std::string(hint);
    }
  }
  // x = a if c else b, before the True in it
  const bool choice = has_name(tokens, "if") && has_name(tokens, "else") &&
                      !has_name(tokens, "then") && !is_name(tokens.front(), "if");
  if (choice)
    return "Lua writes `c and a or b` for a if c else b, where a is neither nil nor false";
  for (const auto& [word, hint] : kHabitWords) {
    if (has_name(tokens, word)) return std::string(hint);
  }
  if (has_f_string(tokens)) return std::string(kFString);
  if (has_string_before(tokens, ":") || has_colon_key(tokens))
    return "Lua writes { key = value }, and { [\"a key\"] = value } for any string";
  if (message.starts_with("']' expected near ':'"))
    return "Lua has no slices; x:slice(0, 0, 2) is x[0:2]: dimension, begin, end";
  if (message.starts_with("')' expected near '='")) {
    return "Lua has no named arguments; a method takes them in a table: x:sum({ dim = -1 })";
  }
  for (const std::string_view after : {"'then' expected near '='", "'do' expected near '='"}) {
    if (message.starts_with(after)) return "comparison is ==, as in step == 0";
  }
  return "";
}

// "call it with a colon: margin:log_sigmoid()" where the line calls the method that failed with a
// dot.
std::string colon_hint(const ErrorReport& report, const Tokens& tokens) {
  const size_t colon = report.operation.find(':');
  const bool of_self = report.message.find("argument `self`") != std::string::npos ||
                       report.message.starts_with("argument 1: ");
  if (colon == std::string::npos || !of_self) return "";
  const std::string method = report.operation.substr(colon + 1);
  for (size_t i = 2; i + 2 < tokens.size(); ++i) {
    if (!is_name(tokens[i], method) || !is_sign(tokens[i - 1], ".")) continue;
    if (tokens[i - 2].kind != LuaTokenKind::kName || !is_sign(tokens[i + 1], "(")) continue;
    return fmt::format("call it with a colon: {}:{}({})", tokens[i - 2].text, method,
                       is_sign(tokens[i + 2], ")") ? "" : "...");
  }
  return "";
}

// math.exp(x) and string.format("%.2f", x) of an object of C++, which is a tensor nearly always.
std::string library_hint(std::string_view message) {
  constexpr std::string_view kTo = " to '";
  const size_t at = message.find(kTo);
  if (!message.starts_with("bad argument #") || at == std::string_view::npos ||
      message.find("expected, got userdata") == std::string_view::npos) {
    return "";
  }
  const size_t begin = at + kTo.size();
  const std::string_view name = message.substr(begin, message.find('\'', begin) - begin);
  constexpr std::string_view kMethods[] = {"abs", "acos", "asin", "atan",  "ceil",
                                           "cos", "cosh", "exp",  "floor", "log",
                                           "sin", "sinh", "sqrt", "tan",   "tanh"};
  if (std::find(std::begin(kMethods), std::end(kMethods), name) != std::end(kMethods)) {
    return fmt::format("of a tensor it is a method: x:{}()", name);
  }
  if (name == "max" || name == "min") return "of tensors: x:maximum(y), x:minimum(y), x:clamp(0)";
  return "x:item() is the number of a tensor with one element";
}

// "cfg.beta is text (line 7); write beta = 0.1" where a value of the line is a number in quotes.
std::string quoted_number_hint(const ErrorReport& report, std::string_view text) {
  const bool wants_number = report.message.find("wanted Scalar") != std::string::npos ||
                            report.message.starts_with("attempt to perform arithmetic");
  if (!wants_number) return "";
  for (const std::string& value : report.values) {
    const size_t equals = value.find(" = \"");
    if (equals == std::string::npos || !value.ends_with('"')) continue;
    const std::string name = value.substr(0, equals);
    const std::string number = value.substr(equals + 4, value.size() - equals - 5);
    char* end = nullptr;
    std::strtod(number.c_str(), &end);
    if (number.empty() || *end != 0) continue;
    const std::string key = name.substr(name.rfind('.') + 1);
    // Find the line that writes the string.
    std::string line;
    const Tokens tokens = lex_lua(text);
    for (size_t i = 0; i + 2 < tokens.size() && line.empty(); ++i) {
      if (!is_name(tokens[i], key) || !is_sign(tokens[i + 1], "=")) continue;
      if (tokens[i + 2].kind == LuaTokenKind::kString && tokens[i + 2].text == number) {
        line = fmt::format(" (line {})", tokens[i].line);
      }
    }
    return fmt::format("{} is text{}; write {} = {}", name, line, key, number);
  }
  return "";
}

// Calls of what is no function: policy(x), x:length() of a property.
std::string call_hint(const ErrorReport& report) {
  constexpr std::string_view kMethod = "attempt to call method '";
  const std::string_view message = report.message;
  if (!message.starts_with("attempt to call ") || message.ends_with("(a nil value)")) return "";
  if (message.starts_with(kMethod)) {
    const std::string_view name =
        message.substr(kMethod.size(), message.find('\'', kMethod.size()) - kMethod.size());
    return fmt::format("it is a value, not a method: write .{} without ()", name);
  }
  const bool policy =
      std::any_of(report.values.begin(), report.values.end(),
                  [](const auto& value) { return value.find(" = Policy ") != std::string::npos; });
  return policy ? "a policy is not a function; policy:logprob(x) is its log-prob, "
                  "policy:token_logprob(x) that of each token"
                : "";
}

// Values that a line of Python reads otherwise.
std::string value_hint(std::string_view message, const Tokens& tokens) {
  const bool arithmetic = message.starts_with("attempt to perform arithmetic on a string value");
  if (arithmetic && has_string_before(tokens, "%")) {
    return "Lua formats with string.format(\"%d\", x)";
  }
  if (message.find("nil") != std::string_view::npos && has_shape_of_zero(tokens)) {
    return "the first element of a table is 1: x.shape[1], or x:size(0)";
  }
  return "";
}

// "`len` is not defined"
std::string undefined_hint(std::string_view message, const Tokens& tokens) {
  if (!message.ends_with("` is not defined")) return "";
  const std::string_view name = message.substr(1, message.find('`', 1) - 1);
  if (name == "f" && has_f_string(tokens)) return std::string(kFString);
  for (const auto& [known, hint] : kHabitNames) {
    if (name == known) return std::string(hint);
  }
  return "";
}

}  // namespace

std::string line_hint(const ErrorReport& report, std::string_view text) {
  const Tokens tokens = lex_lua(report.source_line);
  const bool syntax = report.message.find(" near '") != std::string::npos;
  if (syntax) return habit_hint(report.message, tokens);
  const std::string wide =
      report.message.ends_with("is not defined") ? wide_source_hint(report.source_line, 1, 1) : "";
  for (std::string hint : {wide, undefined_hint(report.message, tokens), call_hint(report),
                           value_hint(report.message, tokens), colon_hint(report, tokens),
                           library_hint(report.message)}) {
    if (!hint.empty()) return hint;
  }
  return quoted_number_hint(report, text);
}

std::string hint_for(std::string_view message) {
  for (const auto& [piece, hint] : kHints) {
    if (message.find(piece) != std::string_view::npos) return std::string(hint);
  }
  return "";
}

}  // namespace xrun
