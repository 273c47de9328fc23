#pragma once
// What an optimizer may change: named masters and a count of their updates.

#include <vector>

#include "core/model/model.h"

namespace xrun {

// A set of trained weights. An optimizer is made of these alone, so that frozen weights have
// neither gradients nor optimizer state.
class Trainable {
 public:
  virtual ~Trainable() = default;

  // The trained masters, fp32 leaves, in a fixed order. Loads the weights at the first call.
  virtual std::vector<Parameter>& parameters() = 0;

  // True once parameters() costs no load.
  virtual bool loaded() const = 0;

  // Called once after each optimizer update; forwards of before are then stale.
  virtual void count_update() = 0;
};

}  // namespace xrun
