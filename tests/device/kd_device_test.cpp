// Distillation losses of models on another device: products there, chunks on the CPU.

#include <gtest/gtest.h>

#include "tests/core/distill/kd_fixture.h"
#include "tests/pretend/pretend_device.h"
#include "tests/tensor_difference.h"

namespace xrun::kd_device_test {

namespace {

KdSide moved(KdSide side) {
  for (at::Tensor* x : {&side.hidden, &side.weight, &side.index, &side.chunk, &side.target}) {
    *x = x->to(pretend_device());
  }
  return side;
}

}  // namespace

TEST(KdOnADevice, HasTheLossesAndGradientsOfTheCpu) {
  for (const std::string& name : kd_loss_names()) {
    const KdOptions options = {.loss = kd_loss_of(name), .top_k = 7, .head_mb = 0};
    const KdProblem p = kd_problem(options.loss);
    const KdGradients want = kd_run(p, [&](const KdProblem& q) {
      return kd_loss(q.student, q.teacher, q.chunks, options, q.map);
    });
    const KdGradients got = kd_run(p, [&](const KdProblem& q) {
      const at::Tensor loss = kd_loss(moved(q.student), moved(q.teacher), q.chunks, options, q.map);
      EXPECT_EQ(loss.device(), pretend_device());
      return loss.cpu();
    });
    EXPECT_LT(largest_difference(got.loss, want.loss), 1e-5) << name;
    EXPECT_LT(largest_difference(got.hidden, want.hidden), 1e-4) << name;
    EXPECT_LT(relative_difference(got.weight, want.weight), 1e-4) << name;
  }
}

}  // namespace xrun::kd_device_test
