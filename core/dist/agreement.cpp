// A rank's message is one letter and a text: "=" its result, "!" an error, "?" bad usage, "^" the
// number of a signal.

#include "core/dist/agreement.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>

#include "core/base/interrupt.h"
#include "core/dist/ranks.h"

namespace xrun {

namespace {

// The type travels as a letter, so that every rank ends with the exit status of the failed one.
std::string error_message(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Interrupted& stop) {
    return "^" + std::to_string(stop.signal_number());
  } catch (const UsageError& error) {
    return std::string("?") + error.what();
  } catch (const c10::Error& error) {
    return std::string("!") + error.what_without_backtrace();
  } catch (const std::exception& error) {
    return std::string("!") + error.what();
  } catch (...) {
    return "!an unknown exception";
  }
}

bool failed(const std::string& message) { return message.front() == '!' || message.front() == '?'; }

// Throws if a rank's message is not a result. `failure`: what this rank threw, or null.
void throw_failures(const std::vector<std::string>& messages, const Ranks& ranks,
                    const std::exception_ptr& failure) {
  const auto first = std::find_if(messages.begin(), messages.end(), failed);
  if (first != messages.end()) {
    if (failure && failed(messages[static_cast<size_t>(ranks.rank())])) {
      std::rethrow_exception(failure);
    }
    const int64_t rank = first - messages.begin();
    // Only the first line: the rank itself prints the rest, such as the recipe's lines.
    const std::string text = fmt::format("rank {} of {}: {}", rank, ranks.size(),
                                         first->substr(1, first->find('\n') - 1));
    if (first->front() == '?') throw UsageError(text);
    throw RankError(rank, text);
  }
  const auto stopped = std::find_if(messages.begin(), messages.end(),
                                    [](const auto& message) { return message.front() == '^'; });
  if (stopped == messages.end()) return;
  const int signal_number = std::stoi(stopped->substr(1));
  request_interrupt(signal_number);
  if (failure) std::rethrow_exception(failure);
  throw Interrupted(signal_number);
}

}  // namespace

std::vector<std::string> gather_results(Ranks* ranks, std::string_view label,
                                        const std::function<std::string()>& work) {
  if (ranks == nullptr) return {work()};
  std::exception_ptr failure;
  std::string own = "=";
  try {
    own += work();
  } catch (...) {
    failure = std::current_exception();
    own = error_message(failure);
  }
  std::vector<std::string> messages = ranks->gather(label, own);
  throw_failures(messages, *ranks, failure);
  for (std::string& message : messages) message.erase(0, 1);
  return messages;
}

void agree(Ranks* ranks, std::string_view label, const std::function<void()>& work) {
  gather_results(ranks, label, [&] { return work(), std::string(); });
}

std::string from_first_rank(Ranks* ranks, std::string_view label,
                            const std::function<std::string()>& work) {
  return gather_results(ranks, label, [&] { return is_first_rank(ranks) ? work() : std::string(); })
      .front();
}

void on_first_rank(Ranks* ranks, std::string_view label, const std::function<void()>& work) {
  agree(ranks, label, [&] {
    if (is_first_rank(ranks)) work();
  });
}

bool is_first_rank(const Ranks* ranks) { return ranks == nullptr || ranks->rank() == 0; }

bool agree_on_interrupt(Ranks* ranks, std::string_view label) {
  if (ranks == nullptr) return interrupt_requested();
  bool agreed = false;
  for (const std::string& raised : ranks->gather(label, std::to_string(interrupt_signal()))) {
    if (raised == "0") continue;
    request_interrupt(std::stoi(raised));
    agreed = true;
  }
  return agreed;  // a signal that came meanwhile is unknown to the others
}

}  // namespace xrun
