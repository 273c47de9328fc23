// Whole runs on a device other than the CPU: the pretended one, which uses host memory.

#include <ATen/ops/zeros.h>

#include <cmath>

#include "core/model/weights/safetensors.h"
#include "tests/lua/bind/rollout/rollout_fixture.h"
#include "tests/lua/bind/session_fixture.h"
#include "tests/pretend/pretend_device.h"
#include "tests/pretend/pretend_memory.h"

namespace xrun::device_run_test {

class DeviceRun : public SessionTest {
 protected:
  DeviceRun() {
    pretend_device();
    device_ = "pretend";
  }
  ~DeviceRun() override { set_pretend_capacity(int64_t{1} << 40); }

  static std::string recipe(const std::string& body = "") {
    return head() +
           "for step, batch in run:steps(train, cfg.batch) do\n"
           "  run:log(adamw:step(batch, dpo))\n" +
           body + "end\n" + kExport;
  }
  static double number(const std::string& line, const std::string& name) {
    const Json object = parse_json(line, "metrics");
    const Json* found = object.find(name);
    return found == nullptr ? std::nan("") : found->as_double();
  }
};

TEST_F(DeviceRun, LossesMatchTheCpu) {
  const std::string text = recipe("  run:log(run:evaluate(valid, dpo))\n");
  ASSERT_EQ(run(text, "there", {.sets = {"dtype=fp32"}}), "");
  device_ = "cpu";
  ASSERT_EQ(run(text, "here", {.sets = {"dtype=f32"}}), "");
  const auto there = metrics("there"), here = metrics("here");
  ASSERT_EQ(there.size(), here.size());
  for (size_t i = 0; i < here.size(); ++i) {
    for (const char* name : {"train/loss", "valid/loss"}) {
      const double wanted = number(here[i], name);
      if (std::isnan(wanted)) continue;
      EXPECT_NEAR(number(there[i], name), wanted, 1e-4) << name << " of line " << i;
    }
  }
}

TEST_F(DeviceRun, KeepsItsFirstDtypeOnAnotherDevice) {
  device_ = "cpu";
  ASSERT_EQ(run(recipe(), "a", {.steps = 1}), "");
  device_ = "pretend";
  for (const int64_t stop : {2, 3}) {
    ASSERT_EQ(run(recipe(), "a", {.resume = true, .steps = stop}), "");
    has(output_, "dtype is float32, as when the run began");
    EXPECT_EQ(read_json("a/run.json").at("dtype").as_string(), "float32");
  }
  device_ = "cpu";
  ASSERT_EQ(run(recipe(), "a", {.resume = true}), "");
  EXPECT_EQ(output_.find("as when the run began"), std::string::npos) << output_;
}

TEST_F(DeviceRun, BeginsInBf16AndKeepsItOnTheCpu) {
  ASSERT_EQ(run(recipe(), "a", {.steps = 1}), "");
  EXPECT_EQ(read_json("a/run.json").at("dtype").as_string(), "bfloat16");
  device_ = "cpu";
  ASSERT_EQ(run(recipe(), "a", {.resume = true}), "");
  has(output_, "dtype is bfloat16, as when the run began");
}

// Runs of a version that recorded no type.
TEST_F(DeviceRun, WithoutARecordedDtypeTheDeviceDecides) {
  device_ = "cpu";
  ASSERT_EQ(run(recipe(), "a", {.steps = 1}), "");
  Json record = read_json("a/run.json"), older = Json::object();
  for (const auto& [key, value] : record.as_object()) {
    if (key != "dtype") older.set(key, value);
  }
  write_file_atomic("a/run.json", dump_json(older));
  device_ = "pretend";
  ASSERT_EQ(run(recipe(), "a", {.resume = true, .steps = 2}), "");
  has(output_, "dtype is float32, as when the run began");
  record = read_json("a/run.json");
  record.set("dtype", "wide");
  write_file_atomic("a/run.json", dump_json(record));
  const std::string error = run(recipe(), "a", {.resume = true});
  has(error, "a/run.json: the type that the run began in cannot be read");
  has(error, "set dtype");
}

TEST_F(DeviceRun, ReportsAndChecksTheMemoryOfItsDevice) {
  ASSERT_EQ(run(recipe(), "a"), "");
  const Json memory = read_json("a/run.json").at("memory");
  const int64_t planned = memory.at("planned").at("total").as_int();
  EXPECT_GT(planned, 0);
  EXPECT_GT(memory.at("measured").at("total").as_int(),
            memory.at("measured").at("weights").as_int());
  has(output_, "tensors of the GPU");
  set_pretend_capacity(planned / 2);
  has(run(recipe(), "b"), "the run needs about ");
  set_pretend_capacity(1000);
  has(run(recipe(), "c"), "the run needs about ");
  EXPECT_FALSE(std::filesystem::exists("c")) << "refused before it loads";
}

TEST_F(DeviceRun, SamplesTheAnswersOfTheCpu) {
  const std::string text = recipe("  run:sample(policy, valid, 1, { max_tokens = 8 })\n");
  const auto answers = [&](const std::string& device) {
    device_ = device;
    EXPECT_EQ(run(text, device, {.steps = 2, .sets = {"dtype=fp32"}}), "");
    EXPECT_EQ(output_.find("decodes on the CPU"), std::string::npos) << output_;
    return read_file(device + "/samples/step_0000000.jsonl");
  };
  EXPECT_EQ(answers("pretend"), answers("cpu"));
}

class DeviceRollouts : public RolloutTest {
 protected:
  DeviceRollouts() { pretend_device(); }
};

TEST_F(DeviceRollouts, AreSampledOnTheDeviceAndAreTheAnswersOfTheCpu) {
  const std::string text = objects("batch = { prompts = 2, max_tokens = 600 }, steps = 3") + R"(
local run = xrun.run(cfg, { policy = policy, adamw = adamw })
for step, prompts in run:steps(data, cfg.batch) do
  local r = policy:sample(prompts, cfg.sampling):score(function(s) return s.ids[1] % 5 + s.digit end)
  local difference = (policy:token_logprob(r):cpu() - r.old_logprob):abs():max():item()
  assert(difference < 1e-4, difference)
  r.advantage = xrun.group_advantage(r.reward, r.group)
  local f = io.open(cfg.answers, "a")
  f:write(table.concat(r.text, "\n"), "\n")
  f:close()
  run:log(adamw:step(r, grpo))
end
)";
  const auto answers = [&](const std::string& device) {
    device_ = device;
    std::string named = text;
    named.replace(named.find("cfg.answers"), 11, "\"" + device + ".txt\"");
    EXPECT_EQ(run(named, device, {.sets = {"dtype=fp32"}}), "");
    return read_file(device + ".txt");
  };
  const std::string there = answers("pretend");
  EXPECT_GT(there.size(), 20u);
  EXPECT_EQ(there, answers("cpu"));
}

TEST_F(DeviceRun, ModelsWithWindowsAreFoldedOnlyIfAsked) {
  // The tiny model as a Qwen2, whose layers may have windows and whose q, k and v have biases.
  Json config = read_json("tiny/config.json");
  config.set("model_type", "qwen2");
  config.set("use_sliding_window", true);
  config.set("sliding_window", 4);
  config.set("max_window_layers", 0);
  write_file_atomic("tiny/config.json", dump_json(config));
  std::vector<NamedTensor> tensors;
  const SafetensorsFile weights("tiny/model.safetensors");
  for (const SafetensorsEntry& entry : weights.entries()) {
    const at::Tensor weight = weights.read(entry.name);
    tensors.push_back({entry.name, weight});
    const size_t end = entry.name.find("_proj.weight");
    if (end == std::string::npos || std::string("qkv").find(entry.name[end - 1]) > 2) continue;
    if (entry.name.find("self_attn") == std::string::npos) continue;
    tensors.push_back({entry.name.substr(0, end) + "_proj.bias", at::zeros({weight.size(0)})});
  }
  write_safetensors("with_biases", tensors);
  std::filesystem::rename("with_biases", "tiny/model.safetensors");
  const std::string notice = "attention over a tree with a window";
  const auto mode_of = [&](const char* device, const std::string& fold) {
    device_ = device;
    std::filesystem::remove_all("r");
    EXPECT_EQ(run(recipe(), "r",
                  {.steps = 1, .sets = {"dtype=fp32", "batch.fold_min=1", "batch.fold=" + fold}}),
              "");
    return read_json("r/run.json").at("fold").at("mode").as_string();
  };
  EXPECT_EQ(mode_of("pretend", "auto"), "never");
  has(output_, notice);
  EXPECT_EQ(mode_of("pretend", "true"), "always");
  EXPECT_EQ(output_.find(notice), std::string::npos) << output_;
  EXPECT_EQ(mode_of("cpu", "auto"), "auto");
  has(output_, "tokens computed as");
}

}  // namespace xrun::device_run_test
