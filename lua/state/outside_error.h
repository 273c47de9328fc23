#pragma once
// Failures that no line of the recipe caused.

#include <string>

#include "core/base/error.h"

namespace xrun {

// A failure outside the recipe: the run's folder, another process in it, a refused resume, a full
// disk. Its report shows no line of the recipe.
class OutsideError : public Error {
 public:
  OutsideError(const std::string& message, bool usage) : Error(message), usage_(usage) {}
  bool usage() const { return usage_; }

 private:
  bool usage_;
};

// Calls `act` and turns its Errors into OutsideErrors.
template <typename Act>
auto outside_recipe(const Act& act) {
  try {
    return act();
  } catch (const UsageError& error) {
    throw OutsideError(error.what(), true);
  } catch (const Error& error) {
    throw OutsideError(error.what(), false);
  }
}

}  // namespace xrun
