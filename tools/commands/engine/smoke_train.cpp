// DPO begins at ln 2 for any weights, because the policy equals its reference, and its loss falls
// on these pairs, whose rejected sides end alike.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/process_usage.h"
#include "core/base/running_program.h"
#include "core/base/strings.h"
#include "core/base/temporary_dir.h"
#include "core/model/weights/init_model.h"
#include "core/run/record/metrics_file.h"
#include "core/text/chat/bytes_tokenizer.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/commands/engine/doctor.h"
#include "tools/commands/engine/starter_files.h"

namespace xrun {

namespace {

constexpr int kSteps = 16;
constexpr double kHighest = 0.6;  // of the last loss
constexpr double kLongest_s = 120;

void make_inputs(const std::filesystem::path& folder) {
  for (const auto& [name, text] : starter_files("dpo")) {
    make_dirs((folder / name).parent_path());
    write_file_atomic(folder / name, text);
  }
  make_dirs(folder / "bytes");
  write_bytes_tokenizer(folder / "bytes");
  const auto tokenizer = Tokenizer::load(folder / "bytes");
  // Small enough for seconds on any machine.
  InitOptions options = init_preset("tiny");
  options.layers = 2;
  options.hidden = 96;
  options.heads = 4;
  options.kv_heads = 2;
  options.ffn = 256;
  options.vocab = tokenizer->vocab_size();
  options.eos_id = tokenizer->eos_id().value_or(-1);
  options.pad_id = tokenizer->pad_id().value_or(-1);
  options.tokenizer = folder / "bytes";
  init_model(folder / "model", options);
}

// Sets an environment variable during its lifetime, for child processes.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~ScopedEnvironment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

std::vector<double> losses_of(const std::filesystem::path& metrics) {
  const RunMetrics read = read_metrics(metrics);
  const MetricSeries* series = read.find("train/loss");
  return series == nullptr ? std::vector<double>() : series->values;
}

Finding wrong(const std::string& subject, const std::string& text) {
  return {Verdict::kWrong, subject, text,
          "run ./xrun test for details, and report its failures with this output"};
}

// Judges the results of a run that succeeded.
Finding judge(const std::filesystem::path& run, const std::string& subject, double seconds) {
  const std::vector<double> losses = losses_of(run / "metrics.jsonl");
  if (losses.size() != kSteps) {
    return wrong(subject,
                 fmt::format("a tiny run logged {} losses, wanted {}", losses.size(), kSteps));
  }
  // At step 0 the policy equals its reference, so every margin is 0.
  if (std::abs(losses.front() - std::log(2.0)) > 1e-4) {
    return wrong(subject, fmt::format("step 0 of DPO had the loss {:.6f}, wanted ln 2 = 0.693147",
                                      losses.front()));
  }
  if (!(losses.back() < kHighest)) {
    return wrong(subject, fmt::format("the loss of a tiny run ended at {:.4f}, wanted below {}",
                                      losses.back(), kHighest));
  }
  if (!path_exists(run / "hf/model.safetensors")) {
    return wrong(subject, "a tiny run exported no model");
  }
  return {Verdict::kOk, subject,
          fmt::format("{} steps of DPO on a tiny model: loss {:.4f} (ln 2) to {:.4f} in {:.1f} s",
                      kSteps, losses.front(), losses.back(), seconds)};
}

}  // namespace

Finding smoke_train(const std::string& device, int threads) {
  const std::string subject = device == "cpu" ? "training" : "training, " + device;
  const TemporaryDir scratch("doctor");
  const std::filesystem::path& folder = scratch.path();
  make_inputs(folder);
  // The user's cache may be damaged or full, and the test must leave nothing in it.
  const ScopedEnvironment cache("XRUN_CACHE", (folder / "cache").string());
  const auto begin = SteadyClock::now();
  // In a child process, so that a crash or a hang is a finding and not the end of doctor.
  std::vector<std::string> command = {program_path().string(),
                                      (folder / "dpo.lua").string(),
                                      "--set",
                                      "model=" + (folder / "model").string(),
                                      "--set",
                                      "data.1.path=" + (folder / "data/preferences.jsonl").string(),
                                      "--set",
                                      fmt::format("steps={}", kSteps),
                                      "--set",
                                      "answers=0",
                                      "--set",
                                      "optim.lr=0.002",
                                      "--device",
                                      device,
                                      "--run",
                                      (folder / "run").string()};
  if (threads > 0) command.insert(command.end(), {"--threads", std::to_string(threads)});
  const ChildResult child =
      run_child(command, folder / "output", [&] { return seconds_since(begin) > kLongest_s; });
  const double seconds = seconds_since(begin);
  if (seconds > kLongest_s) {
    return {Verdict::kWrong, subject,
            fmt::format("a tiny run took more than {:.0f} s instead of about 5", kLongest_s),
            "end other programs, or give fewer --threads than the machine has"};
  }
  if (child.status != 0) {
    return wrong(subject, fmt::format("a tiny run ended with status {}:\n{}", child.status,
                                      child.last_lines));
  }
  return judge(folder / "run", subject, seconds);
}

}  // namespace xrun
