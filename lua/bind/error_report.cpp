// The report of a Lua error is made where the failing stack still stands: in the trampoline for our
// own bindings, in the message handler of lua_pcall for Lua's errors, or after lua_resume failed.

#include "lua/bind/error_report.h"

#include "core/base/file.h"
#include "lua/bind/args.h"
#include "lua/bind/class.h"
#include "lua/bind/source_excerpt.h"

#include <map>

namespace xrun {
namespace {

struct SourceTexts {
  std::map<std::string, std::string> by_chunk;
};

bool is_user_frame(const lua_Debug& frame) {
  return frame.source != nullptr && frame.source[0] == '@' && frame.currentline > 0;
}

std::string function_name(const lua_Debug& frame) {
  if (frame.what != nullptr && std::string_view(frame.what) == "main") return "the main chunk";
  if (frame.name != nullptr) return fmt::format("function `{}`", frame.name);
  return fmt::format("the function at line {}", frame.linedefined);
}

std::string traceback_of(lua_State* L, lua_State* failed) {
  luaL_traceback(L, failed, nullptr, 0);
  std::string text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return text;
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
    set_message(report, text.substr(prefix.size()));
    if (frame.source[0] == '@') {
      report.file = frame.source + 1;
      report.line = frame.currentline;
    }
    return;
  }
  set_message(report, text);
}

int error_tostring(lua_State* L) {
  push(L, object_at<const ErrorReport>(L, 1)->text());
  return 1;
}

int error_concat(lua_State* L) {
  std::string text;
  for (int i = 1; i <= 2; ++i) {
    const bool error = class_of(L, i) == &class_info<const ErrorReport>;
    text += error ? object_at<const ErrorReport>(L, i)->text()
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
      .property("hint", "string", "The way out, or \"\".",
                [](Report& self, lua_State* L) { return push(L, self.hint), 1; })
      .property("traceback", "string", "Lua's stack at the moment of the error.",
                [](Report& self, lua_State* L) { return push(L, self.traceback), 1; });
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
  if (!operation.empty() && !message.starts_with(operation)) head += operation + ": ";
  return head + message;
}

std::string ErrorReport::text() const {
  std::string text = headline();
  text += excerpt_text(source_line, line, mark_begin, mark_end);
  for (const std::string& value : values) text += "\n  " + value;
  if (!hint.empty()) text += "\n  hint: " + hint;
  for (const std::string& caller : callers) text += "\n  " + caller;
  return text;
}

void set_message(ErrorReport& report, std::string_view message) {
  constexpr std::string_view kHint = "\nhint: ";
  const size_t at = message.rfind(kHint);
  if (at != std::string_view::npos) {
    report.hint = message.substr(at + kHint.size());
    message = message.substr(0, at);
  }
  // Of LibTorch's longer texts the first lines say it; the rest is advice about its internals.
  while (!message.empty() && message.back() == '\n') message.remove_suffix(1);
  report.message = message;
  if (report.hint.empty()) report.hint = hint_for(message);
}

void locate(lua_State* L, int level, int arguments, ErrorReport& report) {
  luaL_checkstack(L, LUA_MINSTACK, "no room for an error");
  lua_Debug frame{};
  bool found = false;
  for (int at = level; lua_getstack(L, at, &frame) != 0; ++at) {
    lua_getinfo(L, "nSl", &frame);
    if (!is_user_frame(frame)) continue;
    if (!found) {
      found = true;
      if (report.file.empty()) {
        report.file = frame.source + 1;
        report.line = frame.currentline;
      }
      report.source_line = source_line(L, "@" + report.file, report.line);
      mark_source(report);
      const bool same = report.file == frame.source + 1 && report.line == frame.currentline;
      report.values = values_on_line(L, same ? at : -1, report.source_line, arguments);
      continue;
    }
    if (report.callers.size() == 4) break;
    report.callers.push_back(fmt::format("called from {}:{} in {}", frame.source + 1,
                                         frame.currentline, function_name(frame)));
  }
  if (!found) report.values = values_on_line(L, -1, "", arguments);
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
  } else if (luaL_callmeta(L, i, "__tostring") != 0) {
    set_message(*report, lua_isstring(L, -1) ? lua_tostring(L, -1) : "an error without a text");
    lua_pop(L, 1);
  } else {
    report->message = fmt::format("error with {} as its value", describe_value(L, i));
  }
  locate(L, 0, 0, *report);
  return report;
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

void remember_source(lua_State* L, std::string chunk_name, std::string text) {
  LuaState::of(L).service<SourceTexts>().by_chunk[std::move(chunk_name)] = std::move(text);
}

std::string source_line(lua_State* L, const std::string& chunk_name, int line) {
  auto& texts = LuaState::of(L).service<SourceTexts>().by_chunk;
  auto found = texts.find(chunk_name);
  if (found == texts.end()) {
    std::string text;
    try {
      text = read_file(chunk_name.substr(1), 1 << 20);
    } catch (const Error&) {
      // gone or unreadable: the error shows no excerpt
    }
    found = texts.emplace(chunk_name, std::move(text)).first;
  }
  return std::string(line_of(found->second, line));
}

}  // namespace xrun
