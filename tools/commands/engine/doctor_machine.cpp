// Findings do not depend on each other, so one failure hides nothing.

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <dlfcn.h>
#include <sched.h>
#include <torch/version.h>

#include <cstdlib>
#include <optional>
#include <thread>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/base/temporary_dir.h"
#include "core/model/ops/device_memory.h"
#include "core/model/weights/model_registry.h"
#include "core/run/machine.h"
#include "kernels/cpu/kernels.h"
#include "tools/commands/engine/cuda_plugin.h"
#include "tools/commands/engine/doctor.h"

namespace xrun {

namespace {

constexpr int64_t kLittleMemory = 4'000'000'000;

// Returns the number of threads that this process may run on; 0 if unknown.
int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

Finding processor_finding(const Json& environment) {
  const Json* cpu = environment.find("cpu");
  const std::string kernels = kernels::cpu_kernels().name;
  const int threads = usable_threads();
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  Finding finding{
      Verdict::kOk, "processor",
      fmt::format("{}, {}, {} kernels", cpu == nullptr ? "unknown name" : cpu->as_string(),
                  counted(threads, "thread"), kernels)};
  if (std::getenv("XRUN_CPU") != nullptr) {
    finding.verdict = Verdict::kNote;
    finding.text += " (XRUN_CPU is set)";
    finding.fix = "unset XRUN_CPU to use the fastest kernels of this processor";
  } else if (kernels == "portable") {
    finding.verdict = Verdict::kNote;
    finding.fix = "it has neither AVX2 nor AVX-512, so training is several times slower";
  } else if (threads > 0 && threads < all) {
    // Pinned, or in a container.
    finding.text += fmt::format(" of {}", all);
  }
  return finding;
}

Finding memory_finding(const Json& environment) {
  const Json* total = environment.find("memory_bytes");
  Finding finding{Verdict::kOk, "memory", ""};
  int64_t free = 0;
  try {
    free = available_bytes();
  } catch (const Error& error) {
    return {Verdict::kWrong, "memory", error.what(), "unset XRUN_MEMORY_MB or set it to a number"};
  }
  if (free == 0) {
    finding.verdict = Verdict::kNote;
    finding.text = "the system does not report free memory, so runs are not checked against it";
    return finding;
  }
  finding.text = fmt::format("{} free", format_bytes(static_cast<double>(free)));
  if (total != nullptr) {
    finding.text += " of " + format_bytes(static_cast<double>(total->as_int()));
  }
  if (free >= kLittleMemory) return finding;
  finding.verdict = Verdict::kNote;
  finding.fix =
      "tight for a model of 135M parameters, which takes 2.2 GB for weights, gradients and moments "
      "and more for activations: end other programs, or set recompute = true, lora, or a smaller "
      "batch.max_tokens";
  return finding;
}

// Returns the folder that LibTorch was loaded from.
std::filesystem::path torch_folder() {
  Dl_info info{};
  // From .../torch/lib/libtorch_cpu.so to .../torch.
  if (dladdr(reinterpret_cast<const void*>(&at::get_num_threads), &info) == 0) return {};
  return std::filesystem::path(info.dli_fname).parent_path().parent_path();
}

Finding torch_finding() {
  const at::Tensor row = at::arange(1.0F, 65.0F);
  const double sum = at::matmul(row, at::ones({64})).item<float>();  // 1 + ... + 64
  Finding finding{Verdict::kOk, "LibTorch",
                  fmt::format("{}, {}, {}, in {}", TORCH_VERSION, at::get_cpu_capability(),
                              counted(at::get_num_threads(), "thread"), torch_folder().string())};
  if (sum == 2080.0) return finding;
  finding.verdict = Verdict::kWrong;
  finding.text += fmt::format("; a product of 1 to 64 with ones gave {}, wanted 2080", sum);
  finding.fix = "remove its folder and run ./xrun, which fetches and verifies it again";
  return finding;
}

// The verdict is kMissing without a driver, kWrong with a driver that cannot be used.
Finding gpu_finding(const CudaDriver& driver) {
  if (!driver.problem.empty()) {
    const std::string fix =
        driver.present ? "see docs/gpu.md; --device cpu works without a GPU"
                       : "--device cpu does not need one; for a GPU install NVIDIA's driver 580 "
                         "or newer";
    return {driver.present ? Verdict::kWrong : Verdict::kMissing, "GPU", driver.problem, fix};
  }
  return {
      Verdict::kOk, "GPU",
      fmt::format("{}{}, {}, compute capability {}.{}, driver for CUDA {}.{}",
                  driver.gpus > 1 ? fmt::format("the first of {}: ", driver.gpus) : "", driver.name,
                  format_bytes(static_cast<double>(driver.memory_bytes)), driver.capability_major,
                  driver.capability_minor, driver.version / 1000, driver.version % 1000 / 10)};
}

Finding plugin_finding(bool has_gpu) {
  const std::filesystem::path path = cuda_plugin_path();
  if (path_exists(path)) return {Verdict::kOk, "CUDA plug-in", path.string()};
  return {Verdict::kMissing, "CUDA plug-in", path.filename().string() + " was not built",
          has_gpu ? "install the CUDA 13 toolkit (nvcc) and run ./xrun, which builds it"
                  : "only a GPU needs it; it is built if the CUDA 13 toolkit (nvcc) is installed"};
}

// Returns the version of NCCL if it can be loaded as LibTorch loads it.
std::optional<int> nccl_version(const std::filesystem::path& torch) {
  const std::string beside = torch.parent_path() / "nvidia/nccl/lib/libnccl.so.2";
  // As the loader finds it, then in the wheel beside LibTorch.
  for (const std::string& name : {std::string("libnccl.so.2"), beside}) {
    void* const library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) continue;
    int version = 0;
    const auto get = reinterpret_cast<int (*)(int*)>(dlsym(library, "ncclGetVersion"));
    if (get != nullptr && get(&version) == 0) return version;
  }
  return std::nullopt;
}

Finding nccl_finding() {
  // The version is 10000 * major + 100 * minor + patch (since NCCL 2.9).
  if (const std::optional<int> version = nccl_version(torch_folder())) {
    return {Verdict::kOk, "NCCL",
            fmt::format("{}.{}.{}", *version / 10000, *version / 100 % 100, *version % 100)};
  }
  return {Verdict::kMissing, "NCCL", "libnccl.so.2 was not found",
          "only a GPU needs it; ./xrun fetches it if nvcc of CUDA 13 and a driver are installed "
          "(docs/gpu.md)"};
}

bool pip_runs() {
  const TemporaryDir folder("doctor");
  return run_child({"python3", "-m", "pip", "--version"}, folder.path() / "output").status == 0;
}

}  // namespace

std::vector<Finding> machine_findings() {
  const Json environment = run_environment();
  std::vector<Finding> findings;
  findings.push_back(processor_finding(environment));
  findings.push_back(memory_finding(environment));
  findings.push_back(torch_finding());
  return findings;
}

std::vector<Finding> gpu_findings(bool needed) {
  const CudaDriver driver = read_cuda_driver();
  std::vector<Finding> findings = {gpu_finding(driver), plugin_finding(driver.problem.empty()),
                                   nccl_finding()};
  for (Finding& finding : findings) {
    finding.needed = needed;
    // Training works without a GPU, so what only a GPU needs is just a note.
    if (!needed && finding.verdict == Verdict::kMissing) finding.verdict = Verdict::kNote;
  }
  return findings;
}

std::vector<Finding> program_findings() {
  std::vector<Finding> findings;
  const std::filesystem::path sentencepiece =
      cuda_plugin_path().parent_path() / "libxrun_sentencepiece.so";
  findings.push_back(path_exists(sentencepiece)
                         ? Finding{Verdict::kOk, "sentencepiece", sentencepiece.string()}
                         : Finding{Verdict::kMissing, "sentencepiece",
                                   sentencepiece.string() + " is missing",
                                   "run ./xrun, which builds it; without it a tokenizer.model "
                                   "cannot be read"});
  findings.push_back(pip_runs()
                         ? Finding{Verdict::kOk, "pip", "python3 -m pip works"}
                         : Finding{Verdict::kMissing, "pip", "python3 -m pip does not run",
                                   "apt-get install python3-pip; only `xrun models get` and the "
                                   "first set-up need it"});
  const KnownModel& model = known_models().front();
  findings.push_back(
      is_fetched(model)
          ? Finding{Verdict::kOk, "demo model", model_folder(model).string()}
          : Finding{Verdict::kNote, "demo model", model.name + " is not fetched yet",
                    fmt::format("xrun models get {} ({} MB); recipes fetch it by themselves",
                                model.name, model.download_mb)});
  // Training needs none of these.
  for (Finding& finding : findings) finding.needed = false;
  return findings;
}

}  // namespace xrun
