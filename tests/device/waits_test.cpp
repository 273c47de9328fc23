// Waits of the host for a device: one read per step and body, and no copy to the device.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <filesystem>

#include "core/data/cache/sidecar.h"
#include "core/model/ops/device.h"
#include "tests/core/train/models/reference_peer.h"
#include "tests/device/device_train.h"
#include "tests/error_of.h"

namespace xrun::waits_test {
namespace {

// Waits since construction.
struct WaitsSince {
  WaitsSince() { describe_waits(); }
  int64_t reads() const { return device_waits().reads - before.reads; }
  int64_t writes() const { return device_waits().writes - before.writes; }
  DeviceWaits before = device_waits();
};

// The first step loads the weights, the second those of the reference, whose sidecar the third
// fills and the next reads.
TEST_F(DeviceTrain, ReadsTheDeviceOncePerStep) {
  const Trained t = open(device_);
  t.step(0);
  train_step({{t.batch(1, "").get(), t.objective()}}, t.adamw.get());
  for (int64_t k = 2; k < 5; ++k) {
    if (k == 4) t.reference->flush();
    const std::shared_ptr<Batch> batch = t.batch(k);
    const WaitsSince since;
    train_step({{batch.get(), t.objective()}}, t.adamw.get());
    EXPECT_EQ(since.reads(), 1) << describe_waits();
    EXPECT_EQ(since.writes(), 0) << describe_waits();
  }
  EXPECT_GT(t.reference->counts().cached, 0);
}

// Each body has new pairs, as in a first epoch.
TEST_F(DeviceTrain, ABodyWhoseReferenceComputesReadsTheDeviceOnce) {
  const Trained t = open(device_);
  t.step(0);
  train_step({{t.batch(1, "").get(), t.objective()}}, t.adamw.get());
  constexpr uint64_t kBodies = 4;
  for (uint64_t k = 0; k < kBodies; ++k) {
    const std::shared_ptr<Batch> batch = t.batch(2, "data", k);
    const WaitsSince since;
    train_step({{batch.get(), t.objective()}}, t.adamw.get());
    t.reference->flush_arrived();
    EXPECT_EQ(since.reads(), 1) << k << "\n" << describe_waits();
    EXPECT_EQ(since.writes(), 0) << describe_waits();
  }
  t.reference->flush();
  const Sidecar sidecar(sidecar_root(), ReferencePeer::sidecar_key(*t.reference, "data"));
  EXPECT_EQ(sidecar.size(), 8u * kBodies) << "two sides of four pairs in each body";
  // The host policy equals the reference.
  const Trained host = open(c10::kCPU);
  const at::Tensor wanted = host.policy->logprob(*host.batch(2, "", kBodies - 1));
  const int64_t computed = t.reference->counts().computed;
  const at::Tensor got = t.reference->logprob(*t.batch(2, "data", kBodies - 1));
  EXPECT_EQ(t.reference->counts().computed, computed);
  EXPECT_LT(got.cpu().sub(wanted).abs().max().item<float>(), 1e-3);
}

TEST_F(DeviceTrain, AStepThatSynchronisesIsDetected) {
  const Trained t = open(device_);
  t.step(0);
  const WaitsSince since;
  const Objective reads = [&](MicroBatch& micro) {
    ObjectiveResult result = t.objective()(micro);
    result.losses[0].second.sum().item();
    return result;
  };
  train_step({{t.batch(1, "").get(), reads}}, t.adamw.get());
  EXPECT_GT(since.reads(), 1);
}

TEST_F(DeviceTrain, MixedDevicesAreDetected) {
  const at::Tensor here = at::ones({3}).to(device_), host = at::ones({3});
  constexpr std::string_view kPiece = "all tensors to be on";
  EXPECT_TRUE(throws<c10::Error>(kPiece, [&] { here.add(host); }));
  EXPECT_TRUE(throws<c10::Error>(kPiece, [&] { here.index_select(0, at::arange(2, at::kLong)); }));
  EXPECT_EQ(here.add(here).mul(2).cpu().sum().item<float>(), 12);
}

TEST_F(DeviceTrain, OnlyCopiesFromPinnedMemoryAreAsynchronous) {
  const WaitsSince since;
  at::ones({3}).to(device_);
  EXPECT_EQ(since.writes(), 1);
  at::ones({3}).to(device_, /*non_blocking=*/true);
  EXPECT_EQ(since.writes(), 2) << "of ordinary memory";
  on_device(at::ones({3}), device_);
  EXPECT_EQ(since.writes(), 2) << describe_waits();
}

TEST_F(DeviceTrain, ACopyToTheHostHasNoValueBeforeItArrives) {
  const at::Tensor here = at::full({2}, 3.0).to(device_);
  const WaitsSince since;
  HostCopy copy(here);
  EXPECT_FALSE(copy.arrived());
  here.mul_(2);  // the copy is of what was there before
  EXPECT_EQ(since.reads(), 0) << describe_waits();
  here.sum().item();
  EXPECT_TRUE(copy.arrived());
  EXPECT_EQ(copy.wait()[1].item<float>(), 3);
  EXPECT_EQ(since.reads(), 1) << describe_waits();
  const HostCopy other(here);
  EXPECT_EQ(other.wait()[0].item<float>(), 6);
  EXPECT_EQ(since.reads(), 2) << "of what is asked for early";
  EXPECT_TRUE(HostCopy(at::ones({1})).arrived());
}

// As in an evaluation, no body ends meanwhile.
TEST_F(DeviceTrain, SlowManyReferenceValuesAreStoredWhileComputing) {
  const Trained t = open(device_);
  t.step(0);
  train_step({{t.batch(1, "").get(), t.objective()}}, t.adamw.get());
  const at::NoGradGuard no_grad;
  const auto score = [&](uint64_t seed) {
    BatchInfo info;
    info.data_key = "data";
    info.device = device_;
    t.reference->logprob(*tiny_batch(tiny_pairs(520, seed), 260, info)).sum().item();
  };
  score(1);
  score(2);
  size_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(sidecar_root())) {
    if (file.path().filename() == "values.bin") bytes += std::filesystem::file_size(file.path());
  }
  EXPECT_GE(bytes / 40, 1024u) << "of 2080 values";
}

}  // namespace
}  // namespace xrun::waits_test
