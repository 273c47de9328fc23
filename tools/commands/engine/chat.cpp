// The terminal stays in line mode: it edits lines, and its Ctrl-C arrives as SIGINT, which
// interrupts the read of a line and is polled between two tokens of an answer.

#include "tools/commands/engine/chat.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/terminal/console.h"
#include "core/model/model.h"

namespace xrun {

namespace {

constexpr const char* kHelp =
    "/reset         forgets the conversation, the system prompt stays\n"
    "/system TEXT   starts over with this system prompt; without a text, with none\n"
    "/help          this list\n"
    "/quit          ends, as Ctrl-D does; Ctrl-C ends an answer\n"
    "//TEXT         a message that begins with a slash";

void on_interrupt(int signal_number) { request_interrupt(signal_number); }

// Without SA_RESTART, so that Ctrl-C interrupts a read.
void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

constexpr int kPollMs = 50;

// Lines of standard input.
class TerminalLines {
 public:
  enum class Got { kLine, kInterrupt, kEnd };

  // Sets `line` without its '\n'. Ctrl-C discards a line that was begun.
  Got next(std::string& line) {
    while (true) {
      if (const size_t end = read_.find('\n'); end != std::string::npos) {
        line = read_.substr(0, end);
        read_.erase(0, end + 1);
        return Got::kLine;
      }
      if (interrupt_requested()) {
        clear_interrupt();
        read_.clear();
        return Got::kInterrupt;
      }
      // A Ctrl-C just before the wait, or on another thread, does not end it.
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (::poll(&input, 1, kPollMs) <= 0) continue;
      char bytes[4096];
      const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
      if (n > 0) {
        read_.append(bytes, static_cast<size_t>(n));
      } else if (n == 0 || errno != EINTR) {
        if (read_.empty()) return Got::kEnd;
        read_ += '\n';  // the end of the input ends the last line
      }
    }
  }

 private:
  std::string read_;
};

void show(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Output of a model must not control the terminal: controls except newlines and tabs, and direction
// changes, are spelled out.
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
        console_([](std::string_view text) { show(text); }, console_traits(STDOUT_FILENO)) {}

  int run() {
    say(fmt::format("{}; /help lists what else it takes than messages, Ctrl-D ends",
                    settings_.name));
    TerminalLines lines;
    for (std::string line;;) {
      show(console_.bold("> "));
      const TerminalLines::Got got = lines.next(line);
      if (got != TerminalLines::Got::kLine) show("\n");
      if (got == TerminalLines::Got::kEnd) return 0;
      if (got == TerminalLines::Got::kInterrupt || line.find_first_not_of(" \t\r") == line.npos)
        continue;
      if (line[0] != '/') {
        answer(line);
      } else if (line.starts_with("//")) {
        answer(line.substr(1));
      } else if (!obey(line)) {
        return 0;
      }
    }
  }

 private:
  void say(const std::string& text) { console_.print(console_.dim(text)); }

  // Returns false if the order ends the program.
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
      say(fmt::format("there is no {}{}; /help lists what there is", order,
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
      console_.print(console_.red(error.what()));
    }
  }

  std::string generate_answer(const std::vector<int32_t>& ids) {
    std::string text, ending;
    TextOptions options = settings_.options;
    options.generate.prompt_names = {answers_++};
    options.on_text = [&](size_t, const std::string& piece) {
      text += piece;
      show(harmless(piece));
    };
    try {
      const TextSample sample =
          sample_text(settings_.model, settings_.tokenizer, {ids}, options).front();
      if (sample.reason == "length") {
        ending = fmt::format(
            "(ended after {} tokens, the most that --max-new-tokens or the model "
            "allows)",
            sample.generation.ids.size());
      }
    } catch (const Interrupted&) {
      clear_interrupt();
      ending = "(ended by Ctrl-C)";
    }
    if (text.empty() || text.back() != '\n') show("\n");
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

int chat_on_terminal(ChatSettings settings) {
  catch_interrupts();
  return Chat(std::move(settings)).run();
}

}  // namespace xrun
