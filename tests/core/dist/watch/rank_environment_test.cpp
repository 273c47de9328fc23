// A process finds its rank in the variables of each launcher, and contradictory ones are errors.

#include "core/dist/watch/rank_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/error_of.h"

namespace xrun {
namespace rank_environment_test {

using Environment = std::map<std::string, std::string>;

std::optional<RankEnvironment> env_of(const Environment& environment) {
  return rank_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankEnvironment, IsNothingWithoutVariables) { EXPECT_FALSE(env_of({})); }

TEST(RankEnvironment, ReadsTorchrun) {
  const auto env = env_of({{"RANK", "5"},
                           {"WORLD_SIZE", "8"},
                           {"LOCAL_RANK", "1"},
                           {"LOCAL_WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "node0"},
                           {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 5);
  EXPECT_EQ(env->world_size, 8);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_size, 4);
  EXPECT_EQ(env->address, "node0");
  EXPECT_EQ(env->port, 29500);
  EXPECT_FALSE(env->one_machine());
}

TEST(RankEnvironment, IsNothingForOneProcess) {
  EXPECT_FALSE(env_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
}

TEST(RankEnvironment, OnLoopbackIsOneMachine) {
  const auto env = env_of(
      {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(env);
  EXPECT_TRUE(env->one_machine());
  EXPECT_EQ(env->local_rank, 1);
}

// Kubernetes' operators give no local rank: a process has its machine alone.
TEST(RankEnvironment, WithoutLocalRankHasItsMachineAlone) {
  const auto env = env_of({{"RANK", "1"},
                           {"WORLD_SIZE", "3"},
                           {"MASTER_ADDR", "job-master-0"},
                           {"MASTER_PORT", "23456"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->local_rank, 0);
  EXPECT_EQ(env->local_size, 1);
}

TEST(RankEnvironment, ReadsSrun) {
  const auto env = env_of({{"SLURM_PROCID", "5"},
                           {"SLURM_STEP_NUM_TASKS", "7"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                           {"SLURM_STEP_NODELIST", "gpu[003,007]"},
                           {"SLURM_JOB_ID", "4711"},
                           {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->rank, 5);
  EXPECT_EQ(env->local_rank, 1);
  EXPECT_EQ(env->local_size, 3);
  EXPECT_EQ(env->address, "gpu003");
  EXPECT_GE(env->port, 12000);
  EXPECT_LT(env->port, 28000);
}

// A batch script has SLURM_PROCID and SLURM_NTASKS, but is one process.
TEST(RankEnvironment, IsNothingForABatchScript) {
  EXPECT_FALSE(env_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}));
}

TEST(RankEnvironment, ReadsOpenMpiOnOneMachine) {
  const auto env = env_of({{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "prterun-host-1@1"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->address, "127.0.0.1");
  EXPECT_GT(env->port, 0);
}

TEST(RankEnvironment, MasterVariablesWinOverDerivedOnes) {
  const auto env = env_of({{"SLURM_PROCID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_STEP_NODELIST", "a,b"},
                           {"MASTER_ADDR", "b"},
                           {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(env);
  EXPECT_EQ(env->address, "b");
  EXPECT_EQ(env->port, 1234);
}

TEST(RankEnvironment, NamesTheMissingHalf) {
  EXPECT_EQ(error_of([] {
              env_of({{"RANK", "0"}});
            }),
            "RANK is set but WORLD_SIZE is not; set both, with MASTER_ADDR and MASTER_PORT, or "
            "unset RANK for a single process");
  EXPECT_EQ(error_of([] {
              env_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}});
            }),
            "RANK and WORLD_SIZE are set but MASTER_ADDR is not; set MASTER_ADDR to the host of "
            "rank 0 and MASTER_PORT to a free port there");
}

TEST(RankEnvironment, RejectsARankOutsideTheWorldSize) {
  EXPECT_EQ(error_of([] {
              env_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
            }),
            "RANK: got \"4\", wanted a whole number from 0 to 3");
  EXPECT_EQ(error_of([] {
              env_of({{"RANK", "x"}, {"WORLD_SIZE", "4"}});
            }),
            "RANK: got \"x\", wanted a whole number from 0 to 3");
}

TEST(RankEnvironment, RejectsLoopbackForSeveralMachines) {
  EXPECT_EQ(error_of([] {
              env_of({{"RANK", "1"},
                      {"WORLD_SIZE", "4"},
                      {"LOCAL_RANK", "1"},
                      {"LOCAL_WORLD_SIZE", "2"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", "1"}});
            }),
            "MASTER_ADDR is 127.0.0.1, but 2 of the 4 processes run on other machines, which "
            "cannot reach it; set it to the host name of rank 0");
}

TEST(RankEnvironment, MpiOverMachinesNeedsAnAddress) {
  EXPECT_EQ(error_of([] {
              env_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "29500"}});
            }),
            "mpirun started 2 processes, but MASTER_ADDR is not set; pass the host of rank 0 as "
            "MASTER_ADDR and a free port there as MASTER_PORT (Open MPI: -x MASTER_ADDR=HOST -x "
            "MASTER_PORT=29500)");
}

TEST(GpuOfRank, FollowsTheLocalRank) {
  RankEnvironment env;
  env.rank = 5;
  env.world_size = 8;
  env.local_rank = 1;
  env.local_size = 4;
  EXPECT_EQ(gpu_of_rank(env, "", 0), "1");
  EXPECT_EQ(gpu_of_rank(env, "", 4), "1");
  EXPECT_EQ(gpu_of_rank(env, "4,GPU-77,6", 8), "GPU-77");
}

TEST(GpuOfRank, NeedsAGpuForEachRank) {
  RankEnvironment env;
  env.rank = 5;
  env.local_rank = 1;
  env.local_size = 4;
  EXPECT_EQ(error_of([&] { gpu_of_rank(env, "", 1); }),
            "rank 5 is number 2 of 4 on this machine, but it has 1 GPU; start one rank per GPU");
  EXPECT_EQ(
      error_of([&] { gpu_of_rank(env, "3", 8); }),
      "rank 5 is number 2 of 4 on this machine, but CUDA_VISIBLE_DEVICES=3 shows 1 GPU; start "
      "one rank per GPU");
  env.launcher = "srun";
  EXPECT_EQ(gpu_of_rank(env, "3", 8), "3");
}

TEST(SlurmHosts, FirstOfEveryForm) {
  EXPECT_EQ(first_slurm_host("node1"), "node1");
  EXPECT_EQ(first_slurm_host("a,b"), "a");
  EXPECT_EQ(first_slurm_host("node[001-003,7],gpu1"), "node001");
  EXPECT_EQ(first_slurm_host("gpu1,node[001-003]"), "gpu1");
}

TEST(SlurmTasks, OfEveryNode) {
  EXPECT_EQ(slurm_tasks_of("4(x2),3", 0), 4);
  EXPECT_EQ(slurm_tasks_of("4(x2),3", 1), 4);
  EXPECT_EQ(slurm_tasks_of("4(x2),3", 2), 3);
  EXPECT_NE(error_of([] { slurm_tasks_of("4(x2),3", 3); }), "");
  EXPECT_NE(error_of([] { slurm_tasks_of("x", 0); }), "");
}

}  // namespace rank_environment_test
}  // namespace xrun
