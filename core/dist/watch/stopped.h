#pragma once
// The state in which the ranks are left when an error ends the run of one of them.

namespace xrun {

enum class Stopped {
  kTogether,  // every rank has an error after the same collectives: the next one can run
  kApart,     // every rank has an error, but some wait in collectives that others never join
  kAlone,     // another rank is gone or did not stop: no collective can run
};

}  // namespace xrun
