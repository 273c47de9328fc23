// A message is edited with the terminal in raw mode, where Ctrl-C is a key. While an answer is
// computed Ctrl-C is SIGINT, which is polled between two tokens.

#include "tools/commands/engine/chat.h"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/terminal/console.h"
#include "core/console/terminal/input_lines.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/terminal_input.h"
#include "core/data/rows/tool_calls.h"
#include "core/model/model.h"
#include "core/run/signals.h"
#include "core/text/chat/chat_tokens.h"

namespace xrun {

namespace {

constexpr const char* kHelp =
    "/reset         forgets the conversation but keeps the system prompt\n"
    "/system TEXT   starts over with this system prompt, or with none if TEXT is missing\n"
    "/help          prints this list\n"
    "/quit          ends the program; so do exit, quit and Ctrl-D. Ctrl-C ends an answer\n"
    "//TEXT         a message that begins with a slash";

void wake_input(int) { TerminalInput::wake(); }

// Spells out control characters other than newlines and tabs, and changes of direction, so that the
// output of a model cannot control the terminal.
std::string harmless(std::string_view text) {
  const auto commands = [](uint32_t c) {
    return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0) ||
           (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  };
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    if (commands(point.value)) {
      out += point.value < 0x80 ? fmt::format("<{:02X}>", point.value)
                                : fmt::format("<U+{:04X}>", point.value);
    } else {
      out += text.substr(at, point.size);
    }
    at += point.size;
  }
  return out;
}

class Chat {
 public:
  explicit Chat(ChatSettings settings)
      : settings_(std::move(settings)),
        console_([](std::string_view text) { write_through(stdout, text); },
                 console_traits(STDOUT_FILENO)) {}

  int run() {
    say(fmt::format("{}; /help lists the commands, Ctrl-D ends", settings_.name));
    History history;  // of this conversation only
    const std::unique_ptr<InputLines> lines =
        terminal_lines({.prompt = console_.bold("> "), .more = "  "}, history);
    for (std::string message;;) {
      const InputLines::Outcome got = lines->next(message);
      if (got == InputLines::Outcome::kStopped) throw Interrupted(interrupt_signal());
      if (got == InputLines::Outcome::kEnd) return 0;
      if (message.find_first_not_of(" \t\r\n") == message.npos) continue;
      history.add(message);
      if (message == "exit" || message == "quit") return 0;
      if (message[0] != '/') {
        answer(message);
      } else if (message.starts_with("//")) {
        answer(message.substr(1));
      } else if (!obey(message)) {
        return 0;
      }
    }
  }

 private:
  void say(const std::string& text) { console_.print_raw(console_.dim(text)); }

  // Obeys a command; returns false if it ends the program.
  bool obey(const std::string& line) {
    const size_t end = line.find(' ');
    const std::string order = line.substr(0, end);
    const std::string rest = end == std::string::npos ? "" : line.substr(end + 1);
    if (order == "/quit" || order == "/exit") return false;
    if (order == "/reset") {
      messages_.clear();
      say("a new conversation");
    } else if (order == "/system") {
      messages_.clear();
      system_ = rest;
      say(rest.empty() ? "a new conversation without a system prompt"
                       : "a new conversation under this system prompt");
    } else if (order == "/help") {
      say(kHelp);
    } else {
      say(fmt::format("unknown command {}{}; /help lists the commands", order,
                      did_you_mean(order, {"/reset", "/system", "/help", "/quit", "/exit"})));
    }
    return true;
  }

  Json conversation() const {
    Json::Array all;
    if (!system_.empty()) all.push_back(chat_message("system", system_));
    all.insert(all.end(), messages_.begin(), messages_.end());
    return Json(std::move(all));
  }

  // Answers a message; on an error prints it and leaves the history unchanged.
  void answer(const std::string& line) {
    messages_.push_back(chat_message("user", repair_utf8(line)));
    try {
      const std::vector<int32_t> ids = settings_.prompt.ids(conversation(), Json::object());
      const int64_t limit = settings_.model.config().max_length;
      XRUN_CHECK(static_cast<int64_t>(ids.size()) < limit,
                 "the conversation has {} tokens, the model's limit is {}; /reset starts over",
                 ids.size(), limit);
      messages_.push_back(chat_message("assistant", generate_answer(ids)));
    } catch (const Error& error) {
      messages_.pop_back();
      console_.print_raw(console_.red(shown_text(error.what())));
    }
  }

  // Writes the answer while it is sampled.
  std::string generate_answer(const std::vector<int32_t>& ids) {
    std::string text, ending;
    TextOptions options = settings_.options;
    // Each answer draws other random numbers.
    options.generate.prompt_names = {answers_++};
    // The conversation keeps the exact text; only the terminal gets the harmless form.
    options.on_text = [&](size_t, const std::string& piece) {
      text += piece;
      write_through(stdout, harmless(piece));
    };
    try {
      const TextSample sample =
          sample_text(settings_.model, settings_.tokenizer, {ids}, options).front();
      if (sample.reason == "length") {
        ending =
            fmt::format("(ended after {} tokens, the limit of --max-new-tokens or of the model)",
                        sample.generation.ids.size());
      }
    } catch (const Interrupted& stop) {
      if (stop.signal_number() != SIGINT) throw;
      clear_interrupt(SIGINT);
      ending = "(ended by Ctrl-C)";
    }
    if (text.empty() || text.back() != '\n') write_through(stdout, "\n");
    if (!ending.empty()) say(ending);
    return text;
  }

  ChatSettings settings_;
  Console console_;
  std::string system_;
  Json::Array messages_;  // without the system prompt
  uint64_t answers_ = 0;
};

}  // namespace

// Resolved at the first use, since rows of plain prompts need no template.
const ChatTemplate& ChatPrompt::chat_template() {
  if (!template_) {
    const ResolvedTemplate resolved =
        resolve_template(*tokenizer_, setting_, "", /*allow_unmarked=*/true);
    fmt::print(stderr, "{}\n", shown_text(resolved.notice));
    template_ = resolved.chat_template;
  }
  return *template_;
}

std::vector<int32_t> ChatPrompt::ids(Json messages, Json kwargs) {
  // A row may set it to false.
  if (kwargs.find("add_generation_prompt") == nullptr) kwargs.set("add_generation_prompt", true);
  // As in training. Its notes are about data sets.
  std::vector<std::string> notes;
  if (messages.is_array()) {
    parse_arguments(messages, kwargs, chat_template(), /*may_be_broken=*/true, notes);
  }
  return encode_chat(*tokenizer_, chat_template(), messages, kwargs).ids;
}

Json chat_message(const std::string& role, const std::string& content) {
  return Json(Json::Object{{"role", role}, {"content", content}});
}

int chat_on_terminal(ChatSettings settings) {
  set_signal_manner(SignalManner::kPrompt);
  set_signal_hook(wake_input);
  install_signal_handlers();
  return Chat(std::move(settings)).run();
}

}  // namespace xrun
