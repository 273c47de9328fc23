// A process finds its rank in the variables of each launcher, and contradictory ones are errors.

#include "core/dist/watch/world.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/error_of.h"

namespace xrun {
namespace world_test {

using Environment = std::map<std::string, std::string>;

std::optional<World> world_of(const Environment& environment) {
  return world_from_environment([&](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(World, IsNothingWithoutVariables) { EXPECT_FALSE(world_of({})); }

TEST(World, ReadsTorchrun) {
  const auto world = world_of({{"RANK", "5"},
                               {"WORLD_SIZE", "8"},
                               {"LOCAL_RANK", "1"},
                               {"LOCAL_WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "node0"},
                               {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 5);
  EXPECT_EQ(world->size, 8);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_size, 4);
  EXPECT_EQ(world->address, "node0");
  EXPECT_EQ(world->port, 29500);
  EXPECT_FALSE(world->one_machine());
}

TEST(World, OfOneProcessIsNothing) { EXPECT_FALSE(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}})); }

TEST(World, OnLoopbackIsOneMachine) {
  const auto world = world_of(
      {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "29500"}});
  ASSERT_TRUE(world);
  EXPECT_TRUE(world->one_machine());
  EXPECT_EQ(world->local_rank, 1);
}

// Kubernetes' operators give no local rank: a process has its machine alone.
TEST(World, WithoutLocalRankHasItsMachineAlone) {
  const auto world = world_of({{"RANK", "1"},
                               {"WORLD_SIZE", "3"},
                               {"MASTER_ADDR", "job-master-0"},
                               {"MASTER_PORT", "23456"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->local_rank, 0);
  EXPECT_EQ(world->local_size, 1);
}

TEST(World, ReadsSrun) {
  const auto world = world_of({{"SLURM_PROCID", "5"},
                               {"SLURM_STEP_NUM_TASKS", "7"},
                               {"SLURM_NODEID", "1"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURM_STEP_TASKS_PER_NODE", "4,3"},
                               {"SLURM_STEP_NODELIST", "gpu[003,007]"},
                               {"SLURM_JOB_ID", "4711"},
                               {"SLURM_STEP_ID", "0"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->rank, 5);
  EXPECT_EQ(world->local_rank, 1);
  EXPECT_EQ(world->local_size, 3);
  EXPECT_EQ(world->address, "gpu003");
  EXPECT_GE(world->port, 12000);
  EXPECT_LT(world->port, 28000);
}

// A batch script has SLURM_PROCID and SLURM_NTASKS, but is one process.
TEST(World, OfABatchScriptIsNothing) {
  EXPECT_FALSE(world_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}));
}

TEST(World, ReadsOpenMpiOnOneMachine) {
  const auto world = world_of({{"OMPI_COMM_WORLD_RANK", "1"},
                               {"OMPI_COMM_WORLD_SIZE", "2"},
                               {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                               {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                               {"PMIX_NAMESPACE", "prterun-host-1@1"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->address, "127.0.0.1");
  EXPECT_GT(world->port, 0);
}

TEST(World, MasterVariablesWinOverDerivedOnes) {
  const auto world = world_of({{"SLURM_PROCID", "0"},
                               {"SLURM_STEP_NUM_TASKS", "2"},
                               {"SLURM_STEP_NODELIST", "a,b"},
                               {"MASTER_ADDR", "b"},
                               {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(world);
  EXPECT_EQ(world->address, "b");
  EXPECT_EQ(world->port, 1234);
}

TEST(World, NamesTheMissingHalf) {
  EXPECT_EQ(error_of([] {
              world_of({{"RANK", "0"}});
            }),
            "RANK is set but WORLD_SIZE is not; set both, with MASTER_ADDR and MASTER_PORT, or "
            "unset RANK for a single process");
  EXPECT_EQ(error_of([] {
              world_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}});
            }),
            "RANK and WORLD_SIZE are set but MASTER_ADDR is not; set MASTER_ADDR to the host of "
            "rank 0 and MASTER_PORT to a free port there");
}

TEST(World, RejectsARankOutsideTheWorld) {
  EXPECT_EQ(error_of([] {
              world_of({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
            }),
            "RANK: got \"4\", wanted a whole number from 0 to 3");
  EXPECT_EQ(error_of([] {
              world_of({{"RANK", "x"}, {"WORLD_SIZE", "4"}});
            }),
            "RANK: got \"x\", wanted a whole number from 0 to 3");
}

TEST(World, RejectsLoopbackForSeveralMachines) {
  EXPECT_EQ(error_of([] {
              world_of({{"RANK", "1"},
                        {"WORLD_SIZE", "4"},
                        {"LOCAL_RANK", "1"},
                        {"LOCAL_WORLD_SIZE", "2"},
                        {"MASTER_ADDR", "127.0.0.1"},
                        {"MASTER_PORT", "1"}});
            }),
            "MASTER_ADDR is 127.0.0.1, but 2 of the 4 processes run on other machines, which "
            "cannot reach it; set it to the host name of rank 0");
}

TEST(World, MpiOverMachinesNeedsAnAddress) {
  EXPECT_EQ(error_of([] {
              world_of({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_PORT", "29500"}});
            }),
            "mpirun started 2 processes, but MASTER_ADDR is not set; pass the host of rank 0 as "
            "MASTER_ADDR and a free port there as MASTER_PORT (Open MPI: -x MASTER_ADDR=HOST -x "
            "MASTER_PORT=29500)");
}

TEST(GpuOfRank, IsThatOfTheLocalRank) {
  World world;
  world.rank = 5;
  world.size = 8;
  world.local_rank = 1;
  world.local_size = 4;
  EXPECT_EQ(gpu_of_rank(world, "", 0), "1");
  EXPECT_EQ(gpu_of_rank(world, "", 4), "1");
  EXPECT_EQ(gpu_of_rank(world, "4,GPU-77,6", 8), "GPU-77");
}

TEST(GpuOfRank, NeedsAGpuForEachRank) {
  World world;
  world.rank = 5;
  world.local_rank = 1;
  world.local_size = 4;
  EXPECT_EQ(error_of([&] { gpu_of_rank(world, "", 1); }),
            "rank 5 is number 2 of 4 on this machine, but it has 1 GPU; start one rank per GPU");
  EXPECT_EQ(
      error_of([&] { gpu_of_rank(world, "3", 8); }),
      "rank 5 is number 2 of 4 on this machine, but CUDA_VISIBLE_DEVICES=3 shows 1 GPU; start "
      "one rank per GPU");
  world.launcher = "srun";
  EXPECT_EQ(gpu_of_rank(world, "3", 8), "3");
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

}  // namespace world_test
}  // namespace xrun
