#pragma once
// The messages of errors, for tests that pin them.

#include <gtest/gtest.h>

#include <exception>
#include <string>

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

}  // namespace xrun
