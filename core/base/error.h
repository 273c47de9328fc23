#pragma once
// The error type of the core, and the check that throws it with a formatted message.

#include <fmt/core.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

namespace xrun {

// Returns the message with "\0" for each zero byte: what() would end there.
inline std::string show_zero_bytes(std::string message) {
  for (size_t at = 0; (at = message.find('\0', at)) != std::string::npos;) {
    message.replace(at, 1, "\\0");
  }
  return message;
}

// A failure in the user's terms: what, got, wanted and the fix, after the user's own file and line.
// A zero byte in a string of the user's is shown as "\0".
class Error : public std::runtime_error {
 public:
  explicit Error(std::string message) : std::runtime_error(show_zero_bytes(std::move(message))) {}
};

// Bad usage or configuration; the process ends with status 2 instead of 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

// A read of a batch's field that the recipe has not set yet. Carries the field's name.
class MissingField : public Error {
 public:
  MissingField(std::string name, const std::string& message)
      : Error(message), name_(std::move(name)) {}
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// The run was asked to stop (SIGINT or SIGTERM); carries the signal's number. Not an Error, so that
// code that continues after an Error does not continue after a request to stop.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal_number) : signal_number_(signal_number) {}
  const char* what() const noexcept override { return "interrupted"; }
  int signal_number() const { return signal_number_; }

 private:
  int signal_number_;
};

}  // namespace xrun

// Throws xrun::Error with a fmt message unless cond holds.
#define XRUN_CHECK(cond, ...)                        \
  do {                                               \
    if (!(cond)) [[unlikely]]                        \
      throw ::xrun::Error(fmt::format(__VA_ARGS__)); \
  } while (false)
