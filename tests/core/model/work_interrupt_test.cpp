// A signal stops a pass of the model at its next poll; an unfinished backward pass rethrows.

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/interrupt.h"
#include "core/model/model.h"
#include "core/model/weights/init_model.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::work_interrupt_test {
namespace {

class WorkInterrupt : public testing::Test {
 protected:
  WorkInterrupt() {
    init_model(dir_, {.hidden = 32, .ffn = 48, .vocab = 97, .max_length = 64, .seed = 3});
  }
  ~WorkInterrupt() override {
    set_work_poll(nullptr);
    clear_interrupt();
  }
  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_ / "model";
};

TEST_F(WorkInterrupt, StopsAPassOnlyIfThePollInterrupts) {
  const auto model = load_model(dir_, at::kFloat, true);
  const at::AutoGradMode gradients_on(true);
  const PackInput input = pack_sequences({{1, 2, 3, 4}});
  const at::Tensor loss = model->forward(input).sum();
  request_interrupt(SIGINT);
  EXPECT_NO_THROW(model->forward(input));  // without a poll, as in a run
  set_work_poll(check_interrupt);
  EXPECT_EQ(signal_of([&] { model->forward(input); }), SIGINT);
  EXPECT_EQ(signal_of([&] { loss.backward(); }), SIGINT);
  clear_interrupt();
  EXPECT_NO_THROW(model->forward(input).sum().backward());
}

}  // namespace
}  // namespace xrun::work_interrupt_test
