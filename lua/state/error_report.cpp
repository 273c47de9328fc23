// The report of a Lua error is made while the failing stack exists: in the trampoline for our own
// bindings, in the message handler of lua_pcall for Lua's errors, or after lua_resume failed.

#include "lua/state/error_report.h"

#include <algorithm>

#include "core/base/file_access.h"
#include "core/base/strings.h"
#include "core/config/excerpt.h"
#include "core/config/lua_source.h"
#include "core/config/wide_signs.h"
#include "lua/state/args.h"
#include "lua/state/class.h"
#include "lua/state/source_excerpt.h"
#include "lua/state/source_texts.h"

namespace xrun {
namespace {

bool is_user_frame(const lua_Debug& frame) {
  // "@" marks a chunk that came from a file; currentline is -1 in C functions.
  return frame.source != nullptr && frame.source[0] == '@' && frame.currentline > 0;
}

std::string function_name(const lua_Debug& frame) {
  if (frame.what != nullptr && std::string_view(frame.what) == "main") return "the main chunk";
  if (frame.name != nullptr) return fmt::format("function `{}`", frame.name);
  return fmt::format("the function at line {}", frame.linedefined);
}

// "[C]: at 0x7f12ab" -> "[C]: in a function", "[builtin#21]: at 0x7f12ab" likewise.
std::string without_addresses(std::string text) {
  constexpr std::string_view kAt = "]: at 0x", kShown = "]: in a function";
  for (size_t at = 0; (at = text.find(kAt, at)) != std::string::npos; at += kShown.size()) {
    const size_t end = text.find_first_not_of("0123456789abcdefABCDEF", at + kAt.size());
    text.replace(at, std::min(end, text.size()) - at, kShown);
  }
  return text;
}

std::string traceback_of(lua_State* L, lua_State* failed) {
  // Now: once the handler returns, the failing stack is gone.
  luaL_traceback(L, failed, nullptr, 0);
  std::string text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return file_access_limited() ? without_addresses(std::move(text)) : text;
}

// "dpo.lua:12: attempt ..." -> position and rest. Chunk names in messages may be cut to 60 bytes,
// so the name is matched against the frames, which know it whole.
void take_position(lua_State* L, std::string_view text, ErrorReport& report) {
  lua_Debug frame{};
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.source == nullptr || frame.currentline <= 0) continue;
    const std::string prefix = fmt::format("{}:{}: ", frame.short_src, frame.currentline);
    if (!text.starts_with(prefix)) continue;
    if (frame.source[0] == '@') {
      report.file = frame.source + 1;
      report.line = frame.currentline;
    }
    text.remove_prefix(prefix.size());  // a coroutine's own position may follow: it is nearer
    break;
  }
  // A coroutine that has ended has no frames: the prefix must be the name of a loaded file.
  for (const auto& [chunk, source] : LuaState::of(L).service<SourceTexts>().by_chunk) {
    const std::string prefix = chunk.substr(1) + ":";
    if (!text.starts_with(prefix)) continue;
    const size_t end = text.find(": ", prefix.size());
    if (end == std::string_view::npos) continue;
    report.file = chunk.substr(1);
    report.line = std::atoi(std::string(text.substr(prefix.size(), end)).c_str());
    return set_message(report, text.substr(end + 2));
  }
  set_message(report, text);
}

int error_tostring(lua_State* L) {
  push(L, object_at<const ErrorReport>(L, 1)->text());
  return 1;
}

// So that "failed: " .. err works after a pcall.
int error_concat(lua_State* L) {
  std::string text;
  for (int i = 1; i <= 2; ++i) {
    const bool error = class_of(L, i) == &class_info<const ErrorReport>;
    text += error                ? object_at<const ErrorReport>(L, i)->text()
            : lua_isstring(L, i) ? lua_tostring(L, i)
                                 : describe_value(L, i);
  }
  push(L, text);
  return 1;
}

}  // namespace

void open_error_class(lua_State* L) {
  using Report = const ErrorReport;
  Class<Report> type(L, "Error", "What pcall gives when xrun or Lua failed; tostring is the text.");
  type.property("message", "string", "What went wrong, without its position.",
                [](Report& self, lua_State* L) { return push(L, self.message), 1; })
      .property("file", "string", "The recipe's file on the stack, or \"\".",
                [](Report& self, lua_State* L) { return push(L, self.file), 1; })
      .property("line", "number", "The line in file, 0 if unknown.",
                [](Report& self, lua_State* L) { return push(L, self.line), 1; })
      .property("hint", "string", "The fix, or \"\".",
                [](Report& self, lua_State* L) { return push(L, self.hint), 1; })
      .property("traceback", "string", "Lua's stack when the error was raised.",
                [](Report& self, lua_State* L) { return push(L, self.traceback), 1; });
  // The class is registered above; this adds metamethods.
  ClassTable table(L, &class_info<Report>, "Error", "-");
  table.add_raw("__tostring", error_tostring);
  table.add_raw("__concat", error_concat);
}

LuaError::LuaError(std::shared_ptr<const ErrorReport> report)
    : Error(report->text()), report_(std::move(report)) {}

std::string ErrorReport::position() const {
  return file.empty() ? "" : fmt::format("{}:{}", file, line);
}

std::string ErrorReport::headline() const {
  std::string head = position();
  if (!head.empty()) head += ": ";
  const std::string name = display_name(operation);
  if (!name.empty() && !message.starts_with(name)) head += name + ": ";
  return head + message;
}

// A data error leads with the file of the data; an error outside the recipe is its message alone.
std::string ErrorReport::text() const {
  if (outside) return message;
  if (data) {
    const std::string line = source_line.empty() ? "" : ": " + std::string(trimmed(source_line));
    return file.empty() ? message : fmt::format("{}\n  read by {}{}", message, position(), line);
  }
  std::string text = headline();
  text += excerpt_text(source_line, line, static_cast<size_t>(mark_begin),
                       static_cast<size_t>(mark_end));
  for (const std::string& value : values) text += "\n  " + value;
  if (!hint.empty()) text += "\n  hint: " + hint;
  for (const std::string& caller : callers) text += "\n  " + caller;
  return text;
}

void set_message(ErrorReport& report, std::string_view message) {
  // Our own errors carry their hint in the message.
  constexpr std::string_view kHint = "\nhint: ";
  const size_t at = message.rfind(kHint);
  if (at != std::string_view::npos) {
    report.hint = message.substr(at + kHint.size());
    message = message.substr(0, at);
  }
  // LibTorch appends advice for Python: "Hint: enable anomaly detection ... with
  // torch.autograd...".
  message =
      message.substr(0, std::min(message.find(" Hint: "), message.find(" Saved intermediate ")));
  while (!message.empty() && message.back() == '\n') message.remove_suffix(1);
  report.message = message;
  if (report.hint.empty()) report.hint = hint_for(message);
}

namespace {

// A call in tail position leaves no frame of its caller. If the frame below a binding is not a line
// of the recipe (an objective is called from C++), looks for the call in the Lua function that C++
// entered last.
void find_tail_call(lua_State* L, int level, ErrorReport& report) {
  if (display_name(report.operation).empty() || !report.file.empty()) return;
  // level + 1 is the frame below the binding.
  lua_Debug frame{};
  if (lua_getstack(L, level + 1, &frame) != 0) {
    lua_getinfo(L, "Sl", &frame);
    if (is_user_frame(frame)) return;
  }
  const auto& entered = LuaState::of(L).service<EnteredFunctions>().stack;
  if (entered.empty()) return;
  const EnteredFunction& function = entered.back();
  if (function.source.empty() || function.source[0] != '@') return;
  const std::string& text = source_text(L, function.source);
  const auto line = tail_call_line(text, function.first_line, function.last_line, report.operation);
  if (!line) return;
  report.file = function.source.substr(1);
  report.line = *line;
}

}  // namespace

void locate(lua_State* L, int level, int arguments, ErrorReport& report) {
  // An error may come from deep in a recursion that has used up the stack.
  luaL_checkstack(L, LUA_MINSTACK, "no room for an error");
  find_tail_call(L, level, report);
  // True if find_tail_call or the caller of this function has found the position.
  bool placed = !report.file.empty();
  if (placed) report.values = values_on_line(L, -1, "", arguments);
  lua_Debug frame{};
  for (int at = level; lua_getstack(L, at, &frame) != 0; ++at) {
    lua_getinfo(L, "nSl", &frame);
    if (!is_user_frame(frame)) continue;
    // Frames below the line of the error are its callers; that line itself is not repeated.
    const bool same = report.file == frame.source + 1 && report.line == frame.currentline;
    if (!placed || same) {
      placed = true;
      report.file = frame.source + 1;
      report.line = frame.currentline;
      const std::string text = source_line(L, frame.source, frame.currentline);
      report.values = values_on_line(L, at, text, arguments);
    } else if (report.callers.size() < 4) {  // the traceback has the rest
      report.callers.push_back(fmt::format("called from {}:{} in {}", frame.source + 1,
                                           frame.currentline, function_name(frame)));
    }
  }
  if (!placed) report.values = values_on_line(L, -1, "", arguments);
  if (!report.file.empty()) {
    report.source_line = source_line(L, "@" + report.file, report.line);
    mark_source(report);
    // A habit of another language explains a name better than one that is spelled alike.
    if (report.hint.empty() || report.hint.starts_with("did you mean ")) {
      const std::string hint = line_hint(report, source_text(L, "@" + report.file));
      if (!hint.empty()) report.hint = hint;
    }
  }
  report.traceback = traceback_of(L, L);
}

std::shared_ptr<const ErrorReport> report_of(lua_State* L, int i) {
  if (class_of(L, i) == &class_info<const ErrorReport>) {
    return object_at<const ErrorReport>(L, i);
  }
  auto report = std::make_shared<ErrorReport>();
  if (lua_isstring(L, i)) {
    size_t size = 0;
    const char* text = lua_tolstring(L, i, &size);
    take_position(L, std::string_view(text, size), *report);
  } else if (luaL_getmetafield(L, i, "__tostring") != 0) {
    // A recipe may raise a value of its own, and its __tostring may fail too.
    lua_pushvalue(L, i < 0 ? i - 1 : i);
    const bool failed = lua_pcall(L, 1, 1, 0) != 0;
    set_message(*report, failed                ? "the error's __tostring failed"
                         : lua_isstring(L, -1) ? lua_tostring(L, -1)
                                               : "an error without a message");
    lua_pop(L, 1);
  } else {
    report->message = fmt::format("error with {} as its value", describe_value(L, i));
  }
  locate(L, 0, 0, *report);
  return report;
}

namespace {

// Returns the hint of the line before if Lua failed at the first word of a line: it notices a
// `continue` or a `for i in range(3):` only there.
std::string hint_of_line_before(lua_State* L, const ErrorReport& report) {
  const std::string_view message = report.message;
  const size_t near = message.find("near '");
  if (near == std::string_view::npos) return "";
  const std::string_view word = message.substr(near + 6, message.size() - near - 7);
  if (!trimmed(report.source_line).starts_with(word)) return "";
  for (int line = report.line - 1; line > 0; --line) {
    ErrorReport before = report;
    before.source_line = source_line(L, "@" + report.file, line);
    if (trimmed(before.source_line).empty()) continue;
    const std::string hint = line_hint(before, "");
    return hint.empty() ? "" : fmt::format("line {}: {}", line, hint);
  }
  return "";
}

}  // namespace

std::shared_ptr<const ErrorReport> syntax_report(lua_State* L, int i) {
  auto report = std::make_shared<ErrorReport>();
  const std::string text = lua_tostring(L, i);  // "dpo.lua:12: '=' expected near 'x'"
  const std::string marker = ": ";
  // The first ": " ends the position, the last ":" before it precedes the line.
  const size_t end = text.find(marker);
  const size_t colon = end == std::string::npos ? end : text.rfind(':', end - 1);
  if (colon == std::string::npos) {
    set_message(*report, text);
    return report;
  }
  set_message(*report, text.substr(end + marker.size()));
  report->line = std::atoi(text.c_str() + colon + 1);
  // The name in the message may be cut to 60 bytes; the newest chunk of a state is the refused one.
  report->file = LuaState::of(L).service<SourceTexts>().newest.substr(1);
  report->source_line = source_line(L, "@" + report->file, report->line);
  const size_t near = report->message.find("near '");
  const std::string& source = source_text(L, "@" + report->file);
  const std::string wide = wide_source_hint(source, report->line, report->line);
  if (!wide.empty()) report->hint = wide;
  // Lua names an open bracket itself, unless the line before ends with an operator.
  if (wide.empty() && report->message.starts_with("unexpected symbol")) {
    // The end of the text is on the line of its last token.
    const bool at_end = report->message.ends_with("near '<eof>'");
    const LuaToken open = open_bracket_before(source, report->line + (at_end ? 1 : 0));
    if (is_sign(open, "(")) report->hint = fmt::format("the ( of line {} is not closed", open.line);
  }
  if (report->hint.empty()) report->hint = line_hint(*report, "");
  if (report->hint.empty()) report->hint = hint_of_line_before(L, *report);
  // `return x；` swallows the `end` after it, which Lua misses only at the end of the file.
  if (report->hint.empty()) report->hint = wide_source_hint(source, 1, report->line);
  if (near != std::string::npos) {
    const std::string word = report->message.substr(near + 6, report->message.size() - near - 7);
    const size_t at = report->source_line.find(word);
    if (at != std::string::npos) {
      report->mark_begin = static_cast<int>(at);
      report->mark_end = static_cast<int>(at + word.size());
      return report;
    }
  }
  mark_source(*report);
  return report;
}

std::exception_ptr caught_around_lua() {
  if (std::exception_ptr caught = std::current_exception()) return caught;
  return std::make_exception_ptr(Error("not enough memory for the recipe's Lua values"));
}

void push_error(lua_State* L, std::shared_ptr<const ErrorReport> report) {
  luaL_checkstack(L, LUA_MINSTACK, "no room for an error");
  push(L, std::move(report));
}

int message_handler(lua_State* L) {
  auto report = report_of(L, 1);
  push_error(L, std::move(report));
  return 1;
}

}  // namespace xrun
