// Reads inputs from an editor on a terminal, from plain lines elsewhere. Ctrl-C stops the
// computation of an input, not the program.

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/console/terminal/history.h"
#include "core/console/terminal/input_lines.h"
#include "core/console/terminal/shown_text.h"
#include "core/run/signals.h"
#include "lua/prompt/prompt.h"

namespace xrun {
namespace {

constexpr const char* kAsk = "xrun> ";
constexpr const char* kAskMore = "   .. ";

void on_prompt_signal(int signal_number) {
  LuaState::interrupt_from_signal(signal_number);
  // Ends the editor's wait, which may be on another thread.
  TerminalInput::wake();
}

// The state and the thread that evaluate inputs; no other thread may use the state.
LuaState* open_state = nullptr;
std::thread::id open_thread;

void poll_work() {
  if (open_state != nullptr && std::this_thread::get_id() == open_thread) {
    check_interrupt(open_state->get());
  }
}

// Handles signals during a prompt: they stop the computation of its state, long kernels included.
class PromptSignals {
 public:
  explicit PromptSignals(LuaState& state)
      : before_(set_signal_manner(SignalManner::kPrompt)), poll_before_(set_work_poll(poll_work)) {
    open_state = &state;
    open_thread = std::this_thread::get_id();
    LuaState::set_interruptible(&state);
    set_signal_hook(on_prompt_signal);
    install_signal_handlers();
  }
  ~PromptSignals() {
    set_work_poll(poll_before_);
    open_state = nullptr;
    set_signal_manner(before_);
    set_signal_hook(LuaState::interrupt_from_signal);
  }
  PromptSignals(const PromptSignals&) = delete;
  PromptSignals& operator=(const PromptSignals&) = delete;

 private:
  SignalManner before_;
  WorkPoll poll_before_;
};

// Evaluates the inputs of `lines`; returns true if one failed.
bool answer_all(Prompt& prompt, InputLines& lines, const std::string& chunk,
                const std::function<void(const std::string&)>& keep) {
  bool failed = false;
  std::string input;
  while (!prompt.leaving()) {
    const InputLines::Outcome got = lines.next(input);
    if (got == InputLines::Outcome::kStopped) throw Interrupted(interrupt_signal());
    if (got == InputLines::Outcome::kEnd) break;
    // A Ctrl-C between two inputs applies to neither.
    if (!interrupt_requested()) LuaState::clear_interrupt(SIGINT);
    // Kept before it runs, so that an input that ends the process is in the history too.
    keep(input);
    const PromptAnswer answer = lines.first_line() > 0
                                    ? prompt.evaluate(input, chunk, lines.first_line())
                                    : prompt.evaluate(input);
    failed = failed || answer.failed;
    prompt.console().set_status("");
    std::fflush(stdout);  // with what io.write left there
    if (!answer.text.empty()) prompt.console().print_raw(answer.text);
  }
  return failed;
}

}  // namespace

bool run_prompt(Prompt& prompt, const std::string& greeting) {
  const PromptSignals signals(prompt.state());
  prompt.stay();
  Console& console = prompt.console();
  if (!greeting.empty()) console.print_raw(greeting);
  History history(history_file());
  if (!history.problem().empty()) console.print_raw(console.dim(shown_text(history.problem())));
  const auto lines =
      terminal_lines({.prompt = console.bold(kAsk),
                      .more = console.dim(kAskMore),
                      .wants_more = [&](std::string_view text) { return prompt.wants_more(text); },
                      .complete = [&](std::string_view text,
                                      size_t cursor) { return prompt.complete(text, cursor); }},
                     history);
  return answer_all(prompt, *lines, "", [&](const std::string& input) { history.add(input); });
}

bool run_script(Prompt& prompt, int fd, const std::string& name) {
  const PromptSignals signals(prompt.state());
  prompt.stay();
  PlainLines lines(fd, [&](std::string_view text) { return prompt.wants_more(text); });
  return answer_all(prompt, lines, "@" + name, [](const std::string&) {});
}

}  // namespace xrun
