#pragma once
// One policy trained on the pretended device beside one of the host.

#include <gtest/gtest.h>

#include "tests/core/train/trained.h"
#include "tests/pretend/pretend_device.h"

namespace xrun {

class DeviceTrain : public testing::Test {
 protected:
  Trained open(c10::Device device, PolicyOptions options = {}) const {
    options.device = device;
    return open_trained(folder_, options, {.lr = 1e-2, .weight_decay = 0.1});
  }

  const c10::Device device_ = pretend_device();
  TinyFolder folder_;
};

}  // namespace xrun
