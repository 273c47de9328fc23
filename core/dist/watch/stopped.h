#pragma once
// The outcome of an error that ends the run of one rank, for all ranks.

namespace xrun {

enum class Stopped {
  kTogether,  // every rank has an error, after the same collectives: they may go on with the next
  kApart,     // every rank has an error; some waited in collectives that others will never join
  kAlone,     // another rank is gone or did not stop, so nothing can be done with it
};

}  // namespace xrun
