// The colon commands help, doc, ops, type and src, which explain names by the doc strings of
// bindings and config fields and by the schemas of operators.

#include <algorithm>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/console/terminal/text_width.h"
#include "lua/api/api_text.h"
#include "lua/prompt/prompt.h"
#include "lua/state/args.h"
#include "lua/state/source_excerpt.h"
#include "lua/state/source_texts.h"
#include "lua/tensor/op_table.h"
#include "lua/tensor/tensor.h"
#include "lua/tensor/value_text.h"

namespace xrun {
namespace {

constexpr const char* kKeys[] = {
    "An expression prints its value and sets _ to it. Names persist, including top-level locals.",
    "Tab completes. Up and Down go through earlier inputs with the same beginning; Ctrl-R searches "
    "them.",
    "Ctrl-C stops a computation or clears an input; Ctrl-D, exit and quit leave; Alt-Enter starts "
    "a new line.",
};

std::string without_newline(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string help(Prompt& prompt, std::string_view) {
  using WordRows = std::vector<std::pair<std::string, std::string>>;
  const int width = prompt.console().traits().width;
  WordRows of_recipe, others, verbs;
  for (const PromptCommand& command : prompt.commands()) {
    const std::string arguments = command.arguments.empty() ? "" : " " + command.arguments;
    (command.of_recipe ? of_recipe : others)
        .emplace_back(":" + command.name + arguments, command.doc);
  }
  for (const std::string& name : prompt.verbs()) {
    const DocEntry* entry = find_doc("repl." + name);
    if (entry != nullptr) verbs.emplace_back(name + signature_text(*entry), entry->doc);
  }
  // Commands of the recipe come first if there is one.
  std::string text = verbs.empty() ? "" : word_list(verbs, width) + "\n";
  text += verbs.empty() ? word_list(others, width) + "\n" + word_list(of_recipe, width)
                        : word_list(of_recipe, width) + "\n" + word_list(others, width);
  for (const char* line : kKeys) {
    for (const std::string& broken : broken_lines(line, width)) text += "\n" + broken;
  }
  return text;
}

// ---- :doc

// Returns "Policy:logprob" for "policy:logprob", by the class of the prompt's value `policy`; else
// "".
std::string name_by_class(Prompt& prompt, const std::string& name) {
  const size_t at = name.find_first_of(".:");
  if (at == std::string::npos || !prompt.push_name(name.substr(0, at))) return "";
  lua_State* L = prompt.lua();
  const std::string owner = class_of(L, -1) != nullptr ? type_name(L, -1) : "";
  lua_pop(L, 1);
  return owner.empty() ? "" : owner + name.substr(at);
}

// `name` may have its colon or not.
std::string command_text(const Prompt& prompt, std::string name) {
  if (name.starts_with(':')) name.erase(0, 1);
  for (const PromptCommand& command : prompt.commands()) {
    if (command.name != name) continue;
    return ":" + name + (command.arguments.empty() ? "" : " " + command.arguments) + ": " +
           command.doc;
  }
  return "";
}

// Returns the text on a member, spelled with a dot or a colon; "" if it is unknown.
std::string member_text(const std::string& name) {
  const size_t at = name.find_last_of(".:");
  std::string text = explain(name);
  if (!text.empty() || at == std::string::npos) return text;
  // "." and ":" are easily confused.
  std::string other = name;
  other[at] = name[at] == '.' ? ':' : '.';
  return explain(other);
}

// Shows the value of a name of the prompt, and its class.
std::string value_help(Prompt& prompt, const std::string& name) {
  lua_State* L = prompt.lua();
  const std::string owner = class_of(L, -1) != nullptr ? explain(type_name(L, -1)) : "";
  return name + " = " + value_text(L, -1, {.width = prompt.console().traits().width, .depth = 1}) +
         "\n" + owner;
}

// The most specific meaning comes first: a command, a verb, a name of the prompt, then public
// names.
std::string help_on(Prompt& prompt, const std::string& name) {
  if (name.starts_with(':')) return command_text(prompt, name);
  if (std::string text = explain("repl." + name); !text.empty()) return text;
  const std::string by_class = name_by_class(prompt, name);
  if (std::string text = by_class.empty() ? "" : member_text(by_class); !text.empty()) return text;
  if (prompt.push_name(name)) return value_help(prompt, name);
  if (std::string text = member_text(name); !text.empty()) return text;
  return command_text(prompt, name);
}

std::string doc(Prompt& prompt, std::string_view rest) {
  const StackGuard guard(prompt.lua());
  if (rest.empty()) return help(prompt, rest);
  const std::string name(rest);
  if (std::string text = help_on(prompt, name); !text.empty()) return without_newline(text);
  std::vector<std::string> known = public_op_names();
  for (const DocEntry& entry : doc_entries()) known.push_back(entry.name);
  throw Error(fmt::format("unknown name {}{}; :ops finds operators by a piece of their name", name,
                          did_you_mean(name, known)));
}

// ---- :ops

// Returns true if a name matches a pattern, where * matches any text.
bool matches(std::string_view name, std::string_view pattern) {
  // Greedy: on a mismatch the last star takes one more byte; the earlier ones keep their match.
  size_t at = 0, star = pattern.npos, again = 0, p = 0;
  while (at < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      again = at;
    } else if (p < pattern.size() && pattern[p] == name[at]) {
      ++p;
      ++at;
    } else if (star != pattern.npos) {
      p = star + 1;
      at = ++again;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Names in columns, read downwards.
std::string in_columns(const std::vector<std::string>& names, int width) {
  int widest = 1;
  for (const std::string& name : names) widest = std::max(widest, text_width(name));
  // Two blanks between columns, none after the last.
  const size_t columns = static_cast<size_t>(std::max(1, (width + 2) / (widest + 2)));
  const size_t rows = (names.size() + columns - 1) / columns;
  std::string out;
  for (size_t row = 0; row < rows; ++row) {
    std::string line;
    for (size_t i = row; i < names.size(); i += rows) {
      line += (i == row ? "" : "  ") + pad_to_width(names[i], widest);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += (row > 0 ? "\n" : "") + line;
  }
  return out;
}

std::string ops(Prompt& prompt, std::string_view rest) {
  std::string pattern(rest);
  // Without a star the pattern may be anywhere in the name.
  if (pattern.find('*') == std::string::npos) pattern = "*" + pattern + "*";
  std::vector<std::string> found;
  for (const std::string& name : public_op_names()) {
    if (matches(name, pattern)) found.push_back(name);
  }
  for (const std::string& name : op_names("xrun")) {
    if (matches(name, pattern)) found.push_back("xrun.ops.xrun." + name);
  }
  XRUN_CHECK(!found.empty(), "no operator matches {}", rest);
  return in_columns(found, prompt.console().traits().width) +
         fmt::format("\n{}; :doc NAME shows the arguments", counted(std::ssize(found), "operator"));
}

// ---- :type and :src

std::string type_of(lua_State* L, int i) {
  if (const at::Tensor* tensor = tensor_if(L, i)) return "Tensor " + describe_tensor(*tensor);
  if (lua_isfunction(L, i)) return function_text(L, i);
  if (lua_istable(L, i)) {
    size_t members = 0;
    for (lua_pushnil(L); lua_next(L, i) != 0; lua_pop(L, 1)) ++members;
    return fmt::format("table, {} in a list, {} in all", lua_objlen(L, i), members);
  }
  const std::string name = type_name(L, i);
  const std::string described = explain(name);
  return described.empty() || class_of(L, i) == nullptr ? name : without_newline(described);
}

std::string type(Prompt& prompt, std::string_view rest) {
  lua_State* L = prompt.lua();
  XRUN_CHECK(!rest.empty(), "wanted :type EXPRESSION");
  const int count = prompt.call_chunk(rest);
  std::string text;
  for (int i = lua_gettop(L) - count + 1; i <= lua_gettop(L); ++i) {
    add_item(text, shown_text(type_of(L, i)), "\n");
  }
  return count == 0 ? "no value" : text;
}

std::string source(Prompt& prompt, std::string_view rest) {
  lua_State* L = prompt.lua();
  XRUN_CHECK(!rest.empty(), "wanted :src FUNCTION");
  XRUN_CHECK(prompt.call_chunk(rest) > 0 && lua_isfunction(L, -1), "{} is not a function", rest);
  if (lua_iscfunction(L, -1) != 0) return function_text(L, -1) + "\nbuilt in; :doc explains it";
  lua_Debug about{};
  lua_pushvalue(L, -1);
  lua_getinfo(L, ">S", &about);
  const std::string chunk = about.source;
  std::string text = shown_text(fmt::format("{}:{}", chunk.substr(1), about.linedefined));
  for (int line = about.linedefined; line <= about.lastlinedefined; ++line) {
    text += fmt::format("\n{:>5} | {}", line, shown_text(source_line(L, chunk, line)));
  }
  return text;
}

}  // namespace

void add_word_commands(Prompt& prompt) {
  const auto helped = [](Prompt& prompt, std::string_view rest) {
    return rest.empty() ? help(prompt, rest) : doc(prompt, rest);
  };
  prompt.add({"help", "[NAME]", "Lists commands and verbs, or explains a name.", helped});
  prompt.add(
      {"doc", "NAME",
       "Explains a config key, a function, a method, an operator or a command: :doc optim.lr, "
       ":doc policy:logprob, :doc sum.",
       doc});
  prompt.add(
      {"ops", "PATTERN", "Lists operators whose name contains PATTERN; * matches any text.", ops});
  prompt.add({"type", "EXPRESSION", "Shows the type of an expression's value.", type, true});
  prompt.add({"src", "FUNCTION", "Shows the source of a function.", source, true});
}

}  // namespace xrun
