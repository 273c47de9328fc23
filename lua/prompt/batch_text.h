#pragma once
// The batch in hand as a table: what `:batch` shows.

#include <string>

namespace xrun {

class Stepper;

// A line a segment: where it comes from and how much of it is trained; of each set of the loop.
std::string batch_text(Stepper& stepper);

}  // namespace xrun
