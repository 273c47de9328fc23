// An input is tried as an expression first, so that its values can be shown, and then as
// statements. Chunks are named "input 3", so that errors and functions say where they were typed.

#include "lua/prompt/prompt.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <csignal>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/config/lua_source.h"
#include "core/console/terminal/shown_text.h"
#include "lua/bind/recipe.h"
#include "lua/prompt/input_names.h"
#include "lua/state/args.h"
#include "lua/state/interruption.h"
#include "lua/state/source_texts.h"
#include "lua/tensor/value_text.h"

namespace xrun {
namespace {

// Splits ":time f(x)" into "time" and "f(x)".
std::pair<std::string, std::string_view> split_command(std::string_view input) {
  input.remove_prefix(1);
  const size_t end = std::min(input.find_first_of(kBlanks), input.size());
  return {std::string(input.substr(0, end)), trimmed(input.substr(end))};
}

// Loads only text, never bytecode; otherwise as luaL_loadbuffer.
int load_text(lua_State* L, const std::string& text, const std::string& chunk) {
  return luaL_loadbufferx(L, text.data(), text.size(), chunk.c_str(), "t");
}

// Returns true if `text` is a chunk. If not, sets `unfinished` if the parser wanted more at its
// end.
bool is_chunk(lua_State* L, const std::string& text, bool* unfinished) {
  const StackGuard guard(L);
  if (load_text(L, text, "=prompt") == 0) return true;
  size_t size = 0;
  const char* message = lua_tolstring(L, -1, &size);
  // More lines cannot finish a quoted string, which ends with its line.
  const std::string_view wrong(message, size);
  *unfinished = *unfinished || (wrong.ends_with("'<eof>'") &&
                                wrong.find("unfinished string") == std::string_view::npos);
  return false;
}

// Returns "return nil, INPUT". The nil keeps a call out of tail position, where an error would have
// no line number.
std::string as_expression(std::string_view input) {
  // A leading = is dropped, as in Lua's own interpreter.
  if (input.starts_with('=')) input.remove_prefix(1);
  return "return nil, " + std::string(input);
}

}  // namespace

Prompt::Prompt(LuaState& state, std::shared_ptr<Console> console)
    : state_(state), console_(std::move(console)), input_names_(input_names(state)) {
  add_prompt_commands(*this);
}

Prompt::~Prompt() {
  if (input_names_.open == this) input_names_.open = nullptr;
}

Prompt& Prompt::of(lua_State* L) {
  InputNames& input = input_names(LuaState::of(L));
  XRUN_CHECK(input.open != nullptr, "this works only at the prompt of xrun repl");
  return *input.open;
}

void Prompt::set_names(std::shared_ptr<PromptNames> names) {
  input_names_.frame = std::move(names);
}

void Prompt::add(PromptCommand command) {
  XRUN_CHECK(!command.doc.empty(), ":{} has no doc string", command.name);
  for (PromptCommand& known : commands_) {
    if (known.name != command.name) continue;
    // A command that replaces another stays in its group of :help.
    command.of_recipe |= known.of_recipe;
    known = std::move(command);
    return;
  }
  commands_.push_back(std::move(command));
}

void Prompt::add_verb(const std::string& name, std::vector<LuaParameter> parameters,
                      std::vector<LuaResult> results, const std::string& doc,
                      lua_CFunction function) {
  lua_State* L = state_;
  const StackGuard guard(L);
  input_names_.verbs.push(L);
  push(L, name);
  push_function(L,
                {.name = "repl." + name,
                 .kind = DocKind::kFunction,
                 .parameters = std::move(parameters),
                 .results = std::move(results),
                 .doc = doc},
                function);
  lua_rawset(L, -3);
  verb_names_.push_back(name);
}

bool Prompt::push_name(const std::string& name) {
  return push_input_name(state_, input_names_, name);
}

void Prompt::assign(const std::string& name) { assign_input_name(state_, input_names_, name); }

bool Prompt::wants_more(std::string_view input) {
  std::string_view text = trimmed(input);
  if (text.empty()) return false;
  if (text[0] == ':') {
    const auto [name, rest] = split_command(text);
    // The chunk of :time or :prof may have several lines.
    for (const PromptCommand& command : commands_) {
      if (command.name == name && command.takes_chunk) return wants_more(rest);
    }
    return false;
  }
  bool unfinished = false;
  if (is_chunk(state_, as_expression(text), &unfinished)) return false;
  if (is_chunk(state_, std::string(input), &unfinished)) return false;
  return unfinished;
}

void Prompt::run_chunk(std::string_view input, const std::string& chunk, int first_line) {
  lua_State* L = state_;
  // LuaJIT's bytecode begins with these three bytes.
  XRUN_CHECK(!trimmed(input).starts_with("\x1bLJ"), "this is bytecode; inputs are text");
  bool unfinished = false;
  const std::string expression = as_expression(trimmed(input));
  const bool is_expression = is_chunk(L, expression, &unfinished);
  const std::string text = is_expression ? expression : with_lasting_locals(input);
  // Empty lines give the chunk the line numbers of its script.
  const std::string lines = std::string(static_cast<size_t>(first_line - 1), '\n') + text;
  if (load_text(L, lines, chunk) != 0) {
    throw LuaError(syntax_report(L, -1));
  }
  input_names_.globals.push(L);
  lua_setfenv(L, -2);
  const int function = lua_gettop(L);
  protected_call(L, 0, LUA_MULTRET);
  // The nil of as_expression is the first result.
  if (is_expression) lua_remove(L, function);
}

int Prompt::call_chunk(std::string_view chunk) {
  lua_State* L = state_;
  const int below = lua_gettop(L);
  const std::string name = fmt::format("@input {}", ++inputs_);
  remember_source(L, name, std::string(chunk));
  run_chunk(chunk, name, 1);
  return lua_gettop(L) - below;
}

std::string Prompt::show_results(int first) {
  lua_State* L = state_;
  std::string text;
  for (int i = first; i <= lua_gettop(L); ++i) {
    const int width = console_->traits().width;
    add_item(text, value_text(L, i, {.width = width}), "\n");
  }
  // `_` is the last input's first value, as at Python's prompt.
  if (lua_gettop(L) >= first && !lua_isnil(L, first)) {
    input_names_.own.push(L);
    push(L, "_");
    lua_pushvalue(L, first);
    lua_rawset(L, -3);
    lua_pop(L, 1);
  }
  return text;
}

PromptAnswer Prompt::answer(const std::function<std::string()>& work) {
  const StackGuard guard(state_);
  Prompt* const before = input_names_.open;
  input_names_.open = this;
  PromptAnswer answer;
  const auto fail = [&](std::string_view text) {
    // The first line is the message, the rest the excerpt.
    const std::string shown = shown_text(text);
    const size_t line = std::min(shown.find('\n'), shown.size());
    answer.text = console_->red(shown.substr(0, line)) + shown.substr(line);
    answer.failed = true;
  };
  try {
    answer.text = work();
  } catch (const Interrupted& stop) {
    input_names_.open = before;
    // Other signals end the process.
    if (stop.signal_number() != SIGINT) throw;
    LuaState::clear_interrupt(SIGINT);
    clear_interrupt(SIGINT);
    const std::string position = interrupted_at(state_);
    fail(position.empty() ? "interrupted" : "interrupted at " + position);
    answer.interrupted = true;
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    fail("out of memory");
  } catch (const std::exception& error) {
    fail(error.what());
  }
  input_names_.open = before;
  return answer;
}

PromptAnswer Prompt::evaluate(std::string_view input) {
  if (trimmed(input).empty()) return {};
  // The chunk of a command such as :time is numbered in call_chunk.
  if (trimmed(input)[0] != ':') ++inputs_;
  return evaluate(input, fmt::format("@input {}", inputs_), 1);
}

PromptAnswer Prompt::evaluate(std::string_view input, const std::string& chunk, int first_line) {
  const std::string_view text = trimmed(input);
  if (text.empty()) return {};
  const bool command = text[0] == ':';
  const PromptAnswer answer = command              ? run_command(text)
                              : is_quit_word(text) ? run_command(":quit")
                                                   : run_input(input, chunk, first_line);
  if (on_input) on_input(text, answer.failed);
  return answer;
}

bool Prompt::is_quit_word(std::string_view text) {
  if (text.ends_with("()")) text.remove_suffix(2);
  if (text != "exit" && text != "quit") return false;
  const StackGuard guard(state_);
  // A name that the recipe or an input has defined is an expression.
  return !push_name(std::string(text));
}

void Prompt::note_config_changes() {
  for (std::string& key : keep_config_changes(state_)) keys_set.push_back(std::move(key));
}

PromptAnswer Prompt::run_input(std::string_view input, const std::string& chunk, int first_line) {
  return answer([&] {
    if (first_line > 1 || !chunk.starts_with("@input ")) {
      // A script's text grows with each of its inputs.
      auto lines = std::count(script_.begin(), script_.end(), '\n');
      // The line has been read before, so another script begins.
      if (lines >= first_line) {
        script_.clear();
        lines = 0;
      }
      script_.append(static_cast<size_t>(first_line - 1 - lines), '\n');
      script_ += std::string(input) + "\n";
      remember_source(state_, chunk, script_);
    } else {
      remember_source(state_, chunk, std::string(input));
    }
    const int first = lua_gettop(state_) + 1;
    run_chunk(input, chunk, first_line);
    const std::string shown = show_results(first);
    note_config_changes();
    // Failed inputs never get here.
    script_inputs_.emplace_back(input);
    return shown;
  });
}

PromptAnswer Prompt::run_command(std::string_view input) {
  return answer([&] {
    const auto [name, rest] = split_command(input);
    std::vector<std::string> known;
    for (const PromptCommand& command : commands_) {
      known.push_back(":" + command.name);
      if (command.name != name) continue;
      std::string message = command.run(*this, rest);
      if (command.in_script) script_inputs_.emplace_back(input);
      return message;
    }
    const std::string near = nearest_name(":" + name, known);
    throw Error(
        fmt::format("there is no :{}; {}", name,
                    near.empty() ? "`:help` lists the commands" : "did you mean `" + near + "`?"));
  });
}

}  // namespace xrun
