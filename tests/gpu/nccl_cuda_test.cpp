// Collectives of one rank over NCCL, which a single GPU allows.

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "core/dist/join_ranks.h"
#include "core/dist/watch/socket.h"
#include "tests/gpu/plugin.h"

namespace xrun::nccl_cuda_test {
namespace {

TEST(NcclCuda, OneRankKeepsItsTensors) {
  if (cuda_plugin() == nullptr) GTEST_SKIP() << "no CUDA driver";
  RankEnvironment env;
  env.port = port_of(listen_on(0, /*loopback=*/true));
  const std::unique_ptr<Ranks> ranks = join_ranks(env, {});
  const at::Tensor in = at::arange(1000).to(at::kBFloat16).cuda();
  for (const auto& run : {+[](Ranks&r, const at::Tensor&out, const at::Tensor&in) {
                            r.exchange("exchange", out, {1000}, in, {1000})->wait();
                          },
                          +[](Ranks&r, const at::Tensor&out, const at::Tensor&in) {
                            r.all_gather("all_gather", out, {1000}, in)->wait();
                          }}) {
    const at::Tensor out = at::zeros({1000}, in.options());
    run(*ranks, out, in);
    EXPECT_TRUE(at::equal(out, in));
  }
  const at::Tensor kept = in.clone();
  ranks->broadcast("broadcast", kept, 0);
  EXPECT_TRUE(at::equal(kept, in));
}

}  // namespace
}  // namespace xrun::nccl_cuda_test
