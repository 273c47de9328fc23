// Several teachers of one student, whose logits are averaged.

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "core/distill/kd_view.h"
#include "tests/core/distill/kd_view_fixture.h"
#include "tests/error_of.h"

namespace xrun::kd_average_test {
namespace {

class KdAverage : public KdViewFixture {};

TEST_F(KdAverage, AveragedLogitsMatchTheMeanOfTheTeachers) {
  const auto one = teacher(random_model(kOwn)), two = teacher(random_model(kOwn, /*padding=*/9));
  const auto some = batch();
  const View view = some->micros()[0]->all();
  KdPair pair{*student_, *one, {.loss = KdLoss::kFull, .temperature = 2}};
  pair.others = {two};
  const at::Tensor kd = kd_loss_of(view, pair).detach();
  const int64_t columns = student_->tokenizer()->vocab_size();
  const auto logits = [&](LogprobSource& model) {
    return model.logits(view).detach().to(at::kDouble).slice(1, 0, columns).div(2);
  };
  const at::Tensor q = logits(*one).add(logits(*two)).div(2).log_softmax(1);
  const at::Tensor p = logits(*student_).log_softmax(1);
  const at::Tensor expected = q.exp().mul(q.sub(p)).sum(1).mul(4);
  EXPECT_LT(kd.to(at::kDouble).sub(expected).abs().max().item<double>(), 1e-4);
  EXPECT_GT(expected.min().item<double>(), 0.01);
}

TEST_F(KdAverage, TheMeanOfOneTeacherTwiceIsThatTeacher) {
  const auto one = teacher(random_model(kOther));
  const auto some = batch(aligned_packs(4, one->fingerprint()));
  const View view = some->micros()[0]->all();
  KdPair pair{*student_, *one, {.loss = KdLoss::kUld}};
  const at::Tensor alone = kd_loss_of(view, pair).detach();
  pair.others = {one};
  EXPECT_TRUE(at::equal(kd_loss_of(view, pair).detach(), alone));
}

TEST_F(KdAverage, LogitsOfTwoVocabulariesCannotBeAveraged) {
  const auto own = teacher(random_model(kOwn)), other = teacher(random_model(kOther)),
             columns = teacher(random_model(kOwn), FrozenCache::kTopColumns);
  const auto some = batch();
  KdPair pair{*student_, *own, {.loss = KdLoss::kFull}};
  pair.others = {other};
  EXPECT_EQ(
      message_of<Error>([&] { kd_loss_of(*some, pair); }),
      fmt::format("xrun.kd: the logits of {} and {} cannot be averaged, since their vocabularies "
                  "differ; call xrun.kd for each of them and add the losses",
                  own->dir().string(), other->dir().string()));
  pair.others = {columns};
  EXPECT_NE(message_of<Error>([&] { kd_loss_of(*some, pair); }).find("has cached columns"),
            std::string::npos);
}

}  // namespace
}  // namespace xrun::kd_average_test
