#pragma once
// The prompt of `xrun repl`: evaluates chunks of Lua that see its names, prints their values, and
// runs colon commands.
//
// A name is looked up in the suspended frame (PromptNames), then among the prompt's own names, the
// verbs and the globals; but a verb hides a name of the frame, such as the loop's own `step`. An
// assignment goes to the frame if it has the name (an error if a verb hides it there), else to the
// prompt's own names, where it persists. A `local` at the top level of an input is an assignment
// too.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/console/terminal/console.h"
#include "core/console/terminal/line_editor.h"
#include "lua/state/lua_state.h"

namespace xrun {

class Prompt;
struct InputNames;

// An input that begins with a colon: ":time CHUNK". `name` is spelled without the colon,
// `arguments` as help shows it ("CHUNK", "[PATTERN]", "" none). `run` gets the text after the name,
// without blanks around it, and returns the text to print; an exception is shown as an error.
struct PromptCommand {
  std::string name, arguments, doc;
  std::function<std::string(Prompt&, std::string_view rest)> run;
  bool takes_chunk = false;  // its argument is Lua and may have several lines
  bool in_script = false;    // :save writes it too, because later inputs depend on it
  bool of_recipe = false;    // needs a paused recipe; stays set if another command replaces it
};

// Names that live outside the prompt: the locals and upvalues of a suspended frame. They are also
// read after the prompt is closed, when the recipe calls a function that was typed there.
class PromptNames {
 public:
  virtual ~PromptNames() = default;
  // Pushes the value of a name on L and returns true; false, with nothing pushed, if there is none.
  virtual bool read(lua_State* L, const std::string& name) = 0;
  // Pops the value on top of L into a name and returns true; false, with nothing popped, if there
  // is no such name here.
  virtual bool write(lua_State* L, const std::string& name) = 0;
  virtual std::vector<std::string> names() = 0;  // those whose value is not nil
};

// The outcome of an input.
struct PromptAnswer {
  std::string text;     // to be printed: values, or the error's text; "" nothing
  bool failed = false;  // an error, or interrupted
  bool interrupted = false;
};

// Belongs to one LuaState, which outlives it. Not thread-safe.
class Prompt {
 public:
  // Chunks and commands print to `console`, which also knows the width and the colours.
  Prompt(LuaState& state, std::shared_ptr<Console> console);
  ~Prompt();
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;
  // The prompt whose input is being evaluated in this state. Throws Error outside of one.
  static Prompt& of(lua_State* L);

  LuaState& state() { return state_; }
  lua_State* lua() const { return state_; }
  Console& console() { return *console_; }

  // The suspended frame's names; nullptr: there is none.
  void set_names(std::shared_ptr<PromptNames> names);
  // Adds a colon command, or replaces the one of that name.
  void add(PromptCommand command);
  const std::vector<PromptCommand>& commands() const { return commands_; }
  // Adds a verb: a documented function that every input sees as `name`. It is registered as
  // "repl.name", of kind function.
  void add_verb(const std::string& name, std::vector<LuaParameter> parameters,
                std::vector<LuaResult> results, const std::string& doc, lua_CFunction function);
  const std::vector<std::string>& verbs() const { return verb_names_; }

  // Evaluates one input: a colon command, an expression, or statements. An error of the input is an
  // answer, never thrown. Ctrl-C ends the input alone; other signals throw Interrupted.
  // `first_line` and `chunk` locate a script's input ("@file.lua", line 12); by default it is
  // "input N".
  PromptAnswer evaluate(std::string_view input);
  PromptAnswer evaluate(std::string_view input, const std::string& chunk, int first_line);
  // Returns true if an input needs more lines: Lua's parser expects more at its end.
  bool wants_more(std::string_view input);
  // Candidates at the cursor, a byte offset. Calls no function.
  Completions complete(std::string_view text, size_t cursor);

  // Evaluates Lua as an input does and leaves its values on the stack of lua(); returns their
  // number. Throws what Lua threw. For commands whose argument is a chunk (":time CHUNK").
  int call_chunk(std::string_view chunk);
  // Pushes the value of a name as inputs see it, and returns true; false if it is not defined.
  bool push_name(const std::string& name);
  // Sets one of the prompt's own names, or the frame's, to the value on top of the stack; pops it.
  void assign(const std::string& name);

  // Ends the prompt after this input; `continue()` and Ctrl-D do.
  void leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }
  void stay() { leaving_ = false; }  // for a prompt that is opened again

  // Inputs that were evaluated without an error, in order; colon commands only with `in_script`.
  const std::vector<std::string>& script_inputs() const { return script_inputs_; }
  // Keys of the config that inputs and :set have changed in the recipe's state.
  std::vector<std::string> keys_set;
  void note_config_changes();
  // Called after each input with whether it failed; may be empty.
  std::function<void(std::string_view input, bool failed)> on_input;

 private:
  // Returns true for `exit` and `quit`, with or without (), unless something has that name.
  bool is_quit_word(std::string_view text);
  // Runs a colon command. An unknown one is an error and never tried as Lua.
  PromptAnswer run_command(std::string_view input);
  PromptAnswer run_input(std::string_view input, const std::string& chunk, int first_line);
  // Calls an input as an expression or as statements; leaves its values on the stack. Throws
  // LuaError, of its syntax too.
  void run_chunk(std::string_view input, const std::string& chunk, int first_line);
  std::string show_results(int first);
  // Turns the result or exception of `work` into an answer.
  PromptAnswer answer(const std::function<std::string()>& work);

  LuaState& state_;
  std::shared_ptr<Console> console_;
  InputNames& input_names_;
  std::vector<PromptCommand> commands_;
  std::vector<std::string> verb_names_;
  std::string script_;  // the script read so far, for excerpts
  int64_t inputs_ = 0;
  bool leaving_ = false;
  std::vector<std::string> script_inputs_;
};

// The error of a command or verb that works on a paused recipe.
inline constexpr const char* kNeedsPausedRecipe =
    "this needs a recipe paused at its loop: xrun repl RECIPE.lua";

// Adds the commands of every prompt: help, doc, ops, type, time, prof, mem, src, save, quit, and
// set, batch and reload, which are errors without a recipe.
void add_prompt_commands(Prompt& prompt);
// Adds those of them that explain a word: help, doc, ops, type, src.
void add_word_commands(Prompt& prompt);

// Prints `greeting`, then reads standard input until the user leaves the prompt or the input ends;
// answers go to the prompt's console. On a terminal an editor with the history of history_file()
// asks for each input; elsewhere (a pipe, TERM=dumb, output to a file) plain lines are read.
// Ctrl-C stops a computation or drops the typed input, and the prompt continues. Until the call
// returns, signals are handled as at a prompt. Returns true if an input failed. Throws Interrupted
// on SIGTERM or SIGHUP.
bool run_prompt(Prompt& prompt, const std::string& greeting);

// Does the same for a descriptor that nobody types into (`xrun repl < FILE`); positions in errors
// are lines of `name`.
bool run_script(Prompt& prompt, int fd, const std::string& name);

}  // namespace xrun
