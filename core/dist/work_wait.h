#pragma once
// Waiting for a c10d call with a timeout.

#include <chrono>
#include <exception>

namespace xrun {

// Returns true if the work ends within `timeout`, false if it is still running. Throws the error
// that it failed with.
//   Work  c10d::Work, or what has its wait, isCompleted and exception
template <class Work>
bool wait_once(Work& work, std::chrono::milliseconds timeout) {
  try {
    work.wait(timeout);
    return true;
  } catch (const std::exception&) {
    if (!work.isCompleted()) return false;
  }
  // It failed, or c10d threw its timeout and the work ended before isCompleted was asked.
  if (const std::exception_ptr error = work.exception()) std::rethrow_exception(error);
  return true;
}

}  // namespace xrun
