#pragma once
// Weights without a model, for tests of the optimizer.

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "core/model/model.h"
#include "core/train/models/saveable.h"

namespace xrun {

class StubTrainable : public Trainable {
 public:
  void add(const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape) {
    at::Tensor master = at::tensor(values).view(shape).clone();
    master.requires_grad_(true);
    parameters_.push_back({name, master});
  }
  std::vector<Parameter>& parameters() override { return parameters_; }
  bool loaded() const override { return true; }
  void count_update() override { ++updates; }

  int64_t updates = 0;

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace xrun
