// torchrun's variables are the native ones; those of srun and mpirun are translated to them.

#include "core/dist/watch/rank_environment.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr int64_t kMostRanks = 65536;
constexpr double kMostSeconds = 1e6;  // an int holds as many milliseconds
// Ports derived from a job's id lie below those that systems hand out themselves (from 32768 on).
constexpr int kFirstJobPort = 12000;
constexpr int kJobPorts = 16000;

class Variables {
 public:
  explicit Variables(const ReadVariable& read) : read_(read) {}

  // An empty variable counts as unset, as in shells' ${NAME:-}.
  std::string text(const char* name) const {
    const char* const value = read_(name);
    return value == nullptr ? "" : value;
  }
  bool set(const char* name) const { return !text(name).empty(); }

  int64_t number(const char* name, int64_t low, int64_t high) const {
    const std::string value = text(name);
    const auto number = whole_number_of(value);
    if (number && *number >= low && *number <= high) return *number;
    throw UsageError(
        fmt::format("{}: got \"{}\", wanted a whole number from {} to {}", name, value, low, high));
  }
  int64_t number_or(const char* name, int64_t low, int64_t high, int64_t otherwise) const {
    return set(name) ? number(name, low, high) : otherwise;
  }

 private:
  const ReadVariable& read_;
};

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

int port_of_job(std::string_view id) {
  uint64_t hash = 1469598103934665603u;  // FNV-1a: every rank derives the same port
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return kFirstJobPort + static_cast<int>(hash % kJobPorts);
}

void read_rank_and_size(const Variables& variables, const char* rank, const char* size,
                        RankEnvironment& out) {
  for (const char* name : {rank, size}) {
    if (variables.set(name)) continue;
    throw UsageError(fmt::format(
        "{} is set but {} is not; set both, with MASTER_ADDR and MASTER_PORT, or unset {} for a "
        "single process",
        name == rank ? size : rank, name, name == rank ? size : rank));
  }
  out.world_size = variables.number(size, 1, kMostRanks);
  out.rank = variables.number(rank, 0, out.world_size - 1);
}

void read_local(const Variables& variables, const char* rank, const char* size,
                RankEnvironment& out) {
  out.local_size = variables.number_or(size, 1, out.world_size, out.local_size);
  // Without the number of local ranks, only the number of all ranks bounds the local rank.
  const int64_t highest = variables.set(size) ? out.local_size - 1 : out.world_size - 1;
  out.local_rank = variables.number_or(rank, 0, highest, out.local_rank);
}

void read_torchrun(const Variables& variables, RankEnvironment& out) {
  out.launcher = "torchrun";
  read_rank_and_size(variables, "RANK", "WORLD_SIZE", out);
  if (out.world_size == 1) return;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    if (variables.set(name)) continue;
    throw UsageError(fmt::format(
        "RANK and WORLD_SIZE are set but {} is not; set MASTER_ADDR to the host of rank 0 and "
        "MASTER_PORT to a free port there",
        name));
  }
  // Kubernetes' operators give no local rank: one process per machine, unless all meet on the
  // loopback interface.
  if (is_loopback(variables.text("MASTER_ADDR"))) {
    out.local_rank = out.rank;
    out.local_size = out.world_size;
  }
  read_local(variables, "LOCAL_RANK", "LOCAL_WORLD_SIZE", out);
}

void read_slurm(const Variables& variables, RankEnvironment& out) {
  out.launcher = "srun";
  read_rank_and_size(variables, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", out);
  if (out.world_size == 1) return;
  const int64_t node = variables.number_or("SLURM_NODEID", 0, kMostRanks, 0);
  // The step's variable, not the job's: `srun -n` inside a batch may use part of the job.
  const std::string per_node = variables.text("SLURM_STEP_TASKS_PER_NODE");
  if (!per_node.empty()) out.local_size = slurm_tasks_of(per_node, node);
  out.local_rank = variables.number_or("SLURM_LOCALID", 0, out.local_size - 1, 0);
  out.address = first_slurm_host(variables.text("SLURM_STEP_NODELIST"));
  out.port = port_of_job(variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID"));
}

// `job` is a variable that has the same value on every rank of a job and differs between jobs.
void read_mpi(const Variables& variables, const char* rank, const char* size, const char* job,
              RankEnvironment& out) {
  out.launcher = "mpirun";
  read_rank_and_size(variables, rank, size, out);
  if (out.world_size == 1) return;
  // Open MPI and MPICH name them differently; what is unset changes nothing.
  read_local(variables, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", out);
  read_local(variables, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", out);
  // mpirun does not say where rank 0 is, which does not matter on one machine.
  if (out.one_machine()) out.address = "127.0.0.1";
  if (variables.set(job)) out.port = port_of_job(variables.text(job));
}

// MASTER_ADDR and MASTER_PORT replace what was derived.
void read_master(const Variables& variables, RankEnvironment& out) {
  if (variables.set("MASTER_ADDR")) out.address = variables.text("MASTER_ADDR");
  out.port = static_cast<int>(variables.number_or("MASTER_PORT", 1, 65535, out.port));
  const char* const missing =
      out.address.empty() ? "MASTER_ADDR" : (out.port == 0 ? "MASTER_PORT" : nullptr);
  if (missing != nullptr) {
    throw UsageError(fmt::format(
        "{} started {} processes, but {} is not set; pass the host of rank 0 as MASTER_ADDR and a "
        "free port there as MASTER_PORT (Open MPI: -x MASTER_ADDR=HOST -x MASTER_PORT=29500)",
        out.launcher, out.world_size, missing));
  }
  if (is_loopback(out.address) && !out.one_machine()) {
    throw UsageError(fmt::format(
        "MASTER_ADDR is {}, but {} of the {} processes run on other machines, which cannot reach "
        "it; set it to the host name of rank 0",
        out.address, out.world_size - out.local_size, out.world_size));
  }
}

}  // namespace

std::string gpu_of_rank(const RankEnvironment& env, const std::string& visible, int64_t gpus) {
  std::vector<std::string> names;
  if (visible.empty()) {
    if (gpus == 0) gpus = env.local_size;
    for (int64_t i = 0; i < gpus; ++i) names.push_back(std::to_string(i));
  }
  for (size_t begin = 0; begin < visible.size();) {
    const size_t comma = std::min(visible.find(',', begin), visible.size());
    names.push_back(visible.substr(begin, comma - begin));
    begin = comma + 1;
  }
  // Slurm may show each task its own GPU alone.
  if (env.launcher == "srun" && names.size() == 1) return names[0];
  if (env.local_rank < static_cast<int64_t>(names.size())) return names[env.local_rank];
  throw UsageError(fmt::format(
      "rank {} is number {} of {} on this machine, but {}; start one rank per GPU", env.rank,
      env.local_rank + 1, env.local_size,
      visible.empty() ? fmt::format("it has {}", counted(gpus, "GPU"))
                      : fmt::format("CUDA_VISIBLE_DEVICES={} shows {}", visible,
                                    counted(static_cast<int64_t>(names.size()), "GPU"))));
}

std::string first_slurm_host(const std::string& list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  // "gpu[01-04,07]": the first number, with its zeros.
  const size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

int64_t slurm_tasks_of(const std::string& text, int64_t node) {
  int64_t nodes = 0;
  for (const char* at = text.data(); at != nullptr && *at != 0;) {
    char* end = nullptr;
    const int64_t tasks = std::strtoll(at, &end, 10);
    int64_t times = 1;
    // "4(x2),3": four tasks on each of two nodes, then three.
    if (std::string_view(end).starts_with("(x")) {
      times = std::strtoll(end + 2, &end, 10);
      if (*end == ')') ++end;
    }
    if (end == at) break;
    nodes += times;
    if (node < nodes && tasks > 0) return tasks;
    at = *end == ',' ? end + 1 : nullptr;
  }
  throw UsageError(fmt::format(
      "SLURM_STEP_TASKS_PER_NODE: got \"{}\", wanted the tasks of each node, node {} included",
      text, node));
}

std::optional<RankEnvironment> rank_environment(const ReadVariable& variable) {
  const Variables variables(variable);
  RankEnvironment out;
  // Checked first: torchrun may itself run under srun or mpirun, and then torchrun's ranks count.
  if (variables.set("RANK") || variables.set("WORLD_SIZE")) {
    read_torchrun(variables, out);
  } else if (variables.set("SLURM_STEP_NUM_TASKS")) {
    read_slurm(variables, out);
  } else if (variables.set("OMPI_COMM_WORLD_SIZE")) {
    read_mpi(variables, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", out);
  } else if (variables.set("PMI_SIZE")) {
    read_mpi(variables, "PMI_RANK", "PMI_SIZE", "PMI_JOBID", out);
  }
  // One rank of one is a single process and needs no address.
  if (out.world_size == 1) return std::nullopt;
  read_master(variables, out);
  return out;
}

std::optional<RankEnvironment> rank_environment() {
  return rank_environment([](const char* name) { return std::getenv(name); });
}

std::optional<double> seconds_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == 0) return std::nullopt;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (*end == 0 && seconds > 0 && seconds <= kMostSeconds) return seconds;
  throw UsageError(
      fmt::format("{}: got \"{}\", wanted a positive number of seconds, at most {:.0f}", name, text,
                  kMostSeconds));
}

}  // namespace xrun
