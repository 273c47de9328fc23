#pragma once
// Messages of errors and signals of interruptions, for tests that pin them.

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace xrun {

// Returns the message of the exception that `call` throws, "" if it throws none.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// Returns the message of the E that `call` throws; fails the test if it throws none.
template <typename E, typename Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

// Succeeds if `call` throws an E whose message contains `piece`.
template <typename E, typename Call>
testing::AssertionResult throws(std::string_view piece, const Call& call) {
  const std::string message = message_of<E>(call);
  if (message.find(piece) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << message << "\n  lacks: " << piece;
}

// Returns the signal of the Interrupted that `call` throws, 0 if it throws none.
template <typename Call>
int signal_of(const Call& call) {
  try {
    call();
  } catch (const Interrupted& interrupted) {
    return interrupted.signal_number();
  }
  return 0;
}

}  // namespace xrun
