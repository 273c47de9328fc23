#pragma once
// Whole runs of short recipes over a tiny model, in a fresh folder, in this process.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/interrupt.h"
#include "core/model/weights/init_model.h"
#include "core/text/tokenizer/tokenizer.h"
#include "lua/bind/run/resumed_options.h"
#include "lua/bind/run/run_session.h"
#include "tests/tree.h"

namespace xrun {

// Copies the probe of row bits (row_probe.h) from one test's cache to the next, since a fresh cache
// would measure again.
class ExtraRowProbe {
 public:
  void give(const std::filesystem::path& cache) const {
    if (!path_exists(folder_)) return;
    std::filesystem::create_directories(cache / "measured");
    std::filesystem::copy(folder_, cache / "measured/rows");
  }
  void take(const std::filesystem::path& cache) const {
    if (path_exists(folder_) || !path_exists(cache / "measured/rows")) return;
    std::filesystem::copy(cache / "measured/rows", folder_);
  }
  ~ExtraRowProbe() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("xrun_row_probe_" + std::to_string(getpid()));
};

inline const ExtraRowProbe& kept_row_probe() {
  static const ExtraRowProbe kept;
  return kept;
}

// The options of one run of a recipe.
struct SessionRun {
  bool resume = false;                 // --resume, if the folder holds a run
  std::optional<int64_t> steps = {};   // --steps: stop early
  std::vector<std::string> sets = {};  // --set
  bool force = false;                  // --force
  int threads = 1;                     // --threads
};

class SessionTest : public testing::Test {
 protected:
  SessionTest() : before_(std::filesystem::current_path()) {
    std::string name = std::filesystem::temp_directory_path() / "xrun_session_XXXXXX";
    XRUN_CHECK(mkdtemp(name.data()) != nullptr, "{}: cannot be made", name);
    folder_ = name;
    std::filesystem::current_path(folder_);
    setenv("XRUN_CACHE", (folder_ / "cache").c_str(), 1);
    kept_row_probe().give(folder_ / "cache");
    const std::filesystem::path source = source_path();
    std::filesystem::copy_file(source / "tests/data/pairs.jsonl", "pairs.jsonl");
    InitOptions options = init_preset("tiny");
    options.layers = 1;
    options.hidden = 32;
    options.heads = 2;
    options.kv_heads = 1;
    options.ffn = 64;
    options.tokenizer = source / "tests/data/tiny_tokenizer";
    const auto tokenizer = Tokenizer::load(options.tokenizer);
    options.vocab = tokenizer->vocab_size();
    options.bos_id = tokenizer->bos_id().value_or(-1);
    options.eos_id = tokenizer->eos_id().value_or(-1);
    init_model("tiny", options);
  }
  ~SessionTest() override {
    unsetenv("XRUN_CACHE");
    kept_row_probe().take(folder_ / "cache");
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  // Runs test.lua with this text in the run folder `dir`. Returns "" or the error, and leaves what
  // it printed in output_.
  std::string run(const std::string& text, const std::string& dir, const SessionRun& with = {}) {
    write_file_atomic("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.run_dir = dir;
    options.resume = with.resume && (dir.empty() || path_exists(dir + "/lock"));
    options.force = with.force;
    options.steps = with.steps;
    options.sets = with.sets;
    options.threads = with.threads;
    options.device = device_;
    options.device_given = true;
    testing::internal::CaptureStdout();
    std::string error;
    try {
      run_session(resumed_options(options));
    } catch (const std::exception& thrown) {
      error = thrown.what();
    }
    output_ = testing::internal::GetCapturedStdout();
    return error;
  }

  // Returns the lines of a run's metrics.jsonl, without perf/*.
  static std::vector<std::string> metrics(const std::string& dir) {
    std::vector<std::string> lines;
    const std::string text = read_file(dir + "/metrics.jsonl");
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const Json object = parse_json(std::string_view(text).substr(at, end - at), "metrics");
      Json kept = Json::object();
      for (const auto& [name, value] : object.as_object()) {
        if (!name.starts_with("perf/")) kept.set(name, value);
      }
      lines.push_back(dump_json(kept));
      at = end + 1;
    }
    return lines;
  }

  // Returns every value of a metric, in the order of steps.
  static std::vector<double> values(const std::string& dir, const std::string& name) {
    std::vector<double> found;
    for (const std::string& line : metrics(dir)) {
      const Json object = parse_json(line, "metrics");
      if (const Json* value = object.find(name)) found.push_back(value->as_double());
    }
    return found;
  }

  // Expects the same metrics and weights from a run without a stop and from runs that stop after
  // each number of bodies in `stops` and resume.
  void expect_same_when_resumed(const std::string& text, std::initializer_list<int64_t> stops,
                                const std::vector<std::string>& sets = {}) {
    ASSERT_EQ(run(text, "whole", {.sets = sets}), "");
    for (const int64_t stop : stops) {
      const std::string dir = "stopped_" + std::to_string(stop);
      ASSERT_EQ(run(text, dir, {.steps = stop, .sets = sets}), "");
      ASSERT_EQ(run(text, dir, {.resume = true, .sets = sets}), "") << "resumed at " << stop;
      EXPECT_EQ(metrics(dir), metrics("whole")) << "stopped at " << stop;
      EXPECT_EQ(read_file(dir + "/hf/model.safetensors"), read_file("whole/hf/model.safetensors"))
          << "stopped at " << stop;
    }
  }

  static bool has(const std::string& text, const std::string& piece) {
    if (text.find(piece) != std::string::npos) return true;
    ADD_FAILURE() << text << "\n  lacks: " << piece;
    return false;
  }

  // Returns a DPO recipe up to its loop. `valid` is the content of that table of the config.
  static std::string head(const std::string& valid = "fraction = 0.2") {
    return R"(local xrun = require "xrun"
local cfg = xrun.config {
  model = "tiny", data = { { path = "pairs.jsonl", keep = { "topic" } } }, beta = 0.1,
  valid = { )" +
           valid + R"( }, optim = { lr = 1e-3 }, batch = { pairs = 4, max_tokens = 600 }, steps = 4,
}
local policy = xrun.policy(cfg.model)
local reference = policy:reference()
local train, valid = xrun.preference(cfg.data, policy):split(cfg.valid)
local adamw = xrun.adamw(policy, cfg.optim)
local function dpo(p)
  local chosen = policy:logprob(p.chosen) - reference:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - reference:logprob(p.rejected)
  local margin = cfg.beta * (chosen - rejected)
  return -margin:log_sigmoid(), { margin = margin, accuracy = (margin:sign() + 1) / 2 }
end
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
)";
  }
  static constexpr const char* kExport = "run:export(policy)\n";

  std::filesystem::path folder_, before_;
  std::string output_;
  std::string device_ = "cpu";  // of the next runs
};

}  // namespace xrun
