#pragma once
// Rank, world size and rendezvous address of this process, read from the launcher's environment
// variables.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace xrun {

struct RankEnvironment {
  int64_t rank = 0;        // of this process among all, from 0
  int64_t world_size = 1;  // processes of the run
  int64_t local_rank = 0;  // among those of this machine; picks the GPU
  int64_t local_size = 1;  // processes of this machine
  std::string address;     // host where rank 0 listens
  int port = 0;
  std::string launcher;  // "torchrun", "srun" or "mpirun": whose variables were read

  bool one_machine() const { return local_size == world_size; }
};

// Returns the value of an environment variable, or nullptr.
using ReadVariable = std::function<const char*(const char* name)>;

// Returns what the first of these variables that is set describes, or nothing for a single process:
//   RANK or WORLD_SIZE       torchrun, `xrun launch`, Kubernetes' operators
//   SLURM_STEP_NUM_TASKS     srun; sbatch alone does not set it
//   OMPI_COMM_WORLD_SIZE     mpirun of Open MPI
//   PMI_SIZE                 mpirun of MPICH and Intel MPI
// A missing MASTER_ADDR or MASTER_PORT is derived where the launcher allows it. Throws UsageError
// that names the variable if one is missing, not a number or out of range. A world size of 1 counts
// as a single process.
std::optional<RankEnvironment> rank_environment(const ReadVariable& variable);
std::optional<RankEnvironment> rank_environment();

// Returns the seconds that an environment variable gives, nothing if it is unset or empty. Throws
// UsageError unless they are a positive number, at most a million.
std::optional<double> seconds_variable(const char* name);

// Returns the value of CUDA_VISIBLE_DEVICES that shows this rank only the GPU of its local rank.
// Under srun a single visible GPU is the rank's own already. Throws UsageError if this machine has
// fewer GPUs than ranks.
//   visible  the present value, of whose GPUs one is chosen; "": not set
//   gpus     GPUs of the machine, of which one is chosen if `visible` is ""; 0: unknown
std::string gpu_of_rank(const RankEnvironment& env, const std::string& visible, int64_t gpus);

// Returns the first host of a Slurm list: "node001" of "node[001-003,7],gpu1".
std::string first_slurm_host(const std::string& list);

// Returns the number of tasks on node `node` in `text`, the value of SLURM_STEP_TASKS_PER_NODE: 3
// for node 2 of "4(x2),3". Throws UsageError if it has no such node.
int64_t slurm_tasks_of(const std::string& text, int64_t node);

}  // namespace xrun
