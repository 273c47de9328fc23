#pragma once
// A Lua error as the user sees it: the recipe's line, its source, the values on it, a hint.

#include <exception>
#include <lua.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace xrun {

// One error: message, position in the recipe, values. Immutable.
struct ErrorReport {
  std::string message;               // what, got, wanted; without the position
  std::string operation;             // the binding that failed: "Policy:logprob"; "" for Lua's own
  std::string file;                  // the innermost file on the stack; "" if none
  int line = 0;                      // 1-based; 0 if unknown
  std::string source_line;           // its text; "" if unknown
  int mark_begin = 0, mark_end = 0;  // bytes of source_line that the excerpt underlines
  std::vector<std::string> values;   // "x = f32[2,3] cpu"
  std::string hint;
  std::vector<std::string> callers;  // "called from dpo.lua:41", innermost first, at most 4
  std::string traceback;             // Lua's own, for --debug and log files
  int signal_number = 0;             // not 0: this is an interruption, not a failure
  bool usage = false;                // bad configuration: exit status 2
  bool data = false;                 // a fault of the data; its message names their file and line
  bool outside = false;              // an OutsideError: no line of the recipe, no operands
  std::string missing_field;         // of a MissingField error, the field's name

  std::string position() const;  // "dpo.lua:22", or ""
  std::string headline() const;  // "dpo.lua:22: matmul: mat1 and mat2 ..."
  std::string text() const;      // headline, excerpt, values, hint, callers; no newline at the end
};

// A Lua error that reached C++; what() is the report's text.
class LuaError : public Error {
 public:
  explicit LuaError(std::shared_ptr<const ErrorReport> report);
  const ErrorReport& report() const { return *report_; }
  const std::shared_ptr<const ErrorReport>& shared_report() const { return report_; }
  const std::string& message() const { return report_->message; }
  const std::string& traceback() const { return report_->traceback; }
  const std::string& file() const { return report_->file; }
  int line() const { return report_->line; }

 private:
  std::shared_ptr<const ErrorReport> report_;
};

// A Lua function that C++ is running. A tail call leaves no frame, so it is attributed to one of
// these. The stack has the outermost first.
struct EnteredFunction {
  std::string source;  // "@dpo.lua"
  int first_line = 0, last_line = 0;
};
struct EnteredFunctions {
  std::vector<EnteredFunction> stack;
  EnteredFunction last = {};  // the latest that C++ has left
};

// Splits "message\nhint: the fix" as thrown by bindings into a report's message and hint.
void set_message(ErrorReport& report, std::string_view message);

// Fills position, excerpt, values, callers and traceback from the stack of L. The failed call is
// the frame at `level` (a C function) or is the Lua code itself; `arguments` is the number of stack
// slots from 1 that were the failed binding's operands (0: none are shown).
void locate(lua_State* L, int level, int arguments, ErrorReport& report);

// Makes a report of the error value at index i: an xrun.Error unchanged, a string with its
// "file:line:" prefix parsed, anything else described. The stack of L is the failed one.
std::shared_ptr<const ErrorReport> report_of(lua_State* L, int i);

// The report of a chunk that luaL_loadbuffer refused, whose message is at index i.
std::shared_ptr<const ErrorReport> syntax_report(lua_State* L, int i);

// Returns the exception that a catch (...) around Lua code has caught. An error that Lua throws by
// itself is foreign to C++ and has no pointer; it comes through a protected call only if no memory
// is left for its report, so it becomes an Error that says so.
std::exception_ptr caught_around_lua();

// Pushes a report as the error value that recipes see (class Error: message, hint, file, line,
// traceback; tostring gives the text).
void push_error(lua_State* L, std::shared_ptr<const ErrorReport> report);

// Registers class Error in a state; LuaState does.
void open_error_class(lua_State* L);

// The message handler of every lua_pcall: leaves an Error on the stack in place of any value.
int message_handler(lua_State* L);

// Returns the fix for a message of Lua or LibTorch that has none, or "".
std::string hint_for(std::string_view message);

// Returns the fix that the failed line suggests, or "": a dot in place of a colon, a habit from
// another language. `text` is the whole file.
std::string line_hint(const ErrorReport& report, std::string_view text);

// One short phrase for the value at index i: "f32[2,3] cpu", "nil", "\"text\"", "table of 3".
std::string describe_value(lua_State* L, int i);

}  // namespace xrun
