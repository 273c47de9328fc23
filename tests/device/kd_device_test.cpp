// Distillation losses of models on another device: products there, chunks on the CPU.

#include <gtest/gtest.h>

#include "core/distill/kd_view.h"
#include "core/model/weights/init_model.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/frozen_model.h"
#include "tests/core/distill/kd_fixture.h"
#include "tests/core/train/trained.h"
#include "tests/pretend/pretend_device.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

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

// device = "cpu" of xrun.frozen beside a run on another device, online and stored.
TEST(KdOnADevice, ATeacherMayStayInTheMemoryOfTheHost) {
  const TinyFolder folder;
  const std::string student_dir = source_path("tests/golden/tiny_dpo");
  InitOptions init;
  init.hidden = 48;
  init.heads = 4;
  init.ffn = 64;
  init.scale = 0.2;
  init.tokenizer = student_dir;
  init.vocab = Tokenizer::load(student_dir)->vocab_size();
  init_model(folder.path() / "teacher", init);
  const auto losses = [&](c10::Device device, FrozenCache cache, KdLoss loss) {
    PolicyOptions options;
    options.device = device;
    const auto student = Policy::open(student_dir, options);
    FrozenOptions frozen;
    frozen.cache = cache;
    frozen.top_k = 7;
    const auto teacher = FrozenModel::open(folder.path() / "teacher", frozen);
    BatchInfo info;
    info.device = device;
    info.tokenizer = {student->tokenizer(), student_dir};
    info.total_steps = 10;
    Batch batch(std::move(info), tiny_packs(tiny_pairs(4), 4));
    return kd_loss_of(batch, {*student, *teacher, {.loss = loss, .top_k = 7}}).cpu();
  };
  for (const auto& [cache, loss] : {std::pair{FrozenCache::kNone, KdLoss::kFull},
                                    {FrozenCache::kHidden, KdLoss::kFull},
                                    {FrozenCache::kTopColumns, KdLoss::kTopK}}) {
    KdLoss wanted = loss;
    const at::Tensor host = losses(c10::kCPU, cache, wanted);
    const at::Tensor here = losses(pretend_device(), cache, wanted);
    EXPECT_GT(host.max().item<double>(), 0);
    EXPECT_LT(largest_difference(here, host), 1e-5) << kd_loss_name(wanted);
  }
}

}  // namespace xrun::kd_device_test
