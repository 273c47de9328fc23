// xrun plan predicts, from shapes, the memory per rank and the time of a recipe's step on a
// cluster.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/console.h"
#include "core/model/cost/memory_plan.h"
#include "core/model/cost/step_forecast.h"
#include "lua/prompt/preview.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/plan_device.h"
#include "tools/commands/engine/plan_loop.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

// The plan for one value of dist.level.
struct LevelPlan {
  int64_t level = 0;
  std::vector<MemoryKind> memory;
  StepForecast step;
  double cached_s = 0;  // a step that finds all values of references and teachers in the cache
};

// Returns the work of a step without that of references and teachers.
StepWork without_frozen(StepWork work) {
  work.frozen = 0;
  for (MicroWork& micro : work.micros) micro.blocks.frozen = micro.head.frozen = 0;
  return work;
}

LevelPlan plan_level(PlannedLoop planned, const PlannedDevice& device, int64_t processes,
                     int64_t level) {
  for (PlannedModel& model : planned.models) {
    model.shape.ranks = processes;
    // One process has no other to share with.
    model.shape.level = processes > 1 ? level : 0;
    if (device.measured) continue;
    // GPUs train in bf16, whatever type this machine would use.
    model.shape.dtype = c10::ScalarType::BFloat16;
    model.shape.gemm = GemmType::kStorage;
  }
  LevelPlan out{.level = level, .memory = memory_plan(planned.models), .step = {}};
  const auto count = static_cast<double>(planned.steps.size());
  for (StepWork& work : planned.steps) {
    if (!device.measured) work.element = 2;
    const StepForecast one = forecast_step(work, device.rates, processes, level);
    out.step.compute_s += one.compute_s / count;
    out.step.update_s += one.update_s / count;
    out.step.exchange_s += one.exchange_s / count;
    out.step.exposed_s += one.exposed_s / count;
    out.step.sent_bytes += one.sent_bytes / count;
    out.cached_s +=
        forecast_step(without_frozen(work), device.rates, processes, level).step_s() / count;
  }
  return out;
}

// "1.4 s", "38 ms"
std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

double mean_micros(const PlannedLoop& planned) {
  double sum = 0;
  for (const StepWork& work : planned.steps) sum += static_cast<double>(work.micros.size());
  return sum / static_cast<double>(planned.steps.size());
}

// Returns the number of GPUs that compute no micro-batch in any planned step.
int64_t idle_gpus(const PlannedLoop& planned, int64_t gpus) {
  size_t most = 0;
  for (const StepWork& work : planned.steps) most = std::max(most, work.micros.size());
  return std::max<int64_t>(gpus - static_cast<int64_t>(most), 0);
}

// "1 micro-batch", "3.5 micro-batches"
std::string micros_text(double mean) {
  const auto whole = static_cast<int64_t>(mean);
  if (static_cast<double>(whole) == mean) return counted(whole, "micro-batch", "es");
  return fmt::format("{:.3g} micro-batches", mean);
}

Json json_of(const LevelPlan& level, const PlannedDevice& device, double tokens) {
  Json memory = Json::object();
  memory.set("total", total_bytes(level.memory));
  for (const MemoryKind& kind : level.memory) memory.set(kind.name, kind.bytes);
  Json out = Json::object();
  out.set("level", level.level);
  out.set("memory", std::move(memory));
  out.set("fits", total_bytes(level.memory) <= device.memory);
  out.set("step_s", level.step.step_s());
  out.set("cached_step_s", level.cached_s);
  out.set("compute_s", level.step.compute_s);
  out.set("update_s", level.step.update_s);
  out.set("exchange_s", level.step.exchange_s);
  out.set("exposed_s", level.step.exposed_s);
  out.set("sent_bytes", level.step.sent_bytes);
  out.set("tokens_per_s", tokens / level.step.step_s());
  return out;
}

Json json_of(const StepRates& rates) {
  return Json(Json::Object{{"block_forward_flops", rates.blocks.forward},
                           {"block_backward_flops", rates.blocks.backward},
                           {"head_forward_flops", rates.head.forward},
                           {"head_backward_flops", rates.head.backward},
                           {"micro_batch_s", rates.micro_s},
                           {"memory_bytes", rates.memory},
                           {"link_bytes", rates.link}});
}

void print_json(const PlannedLoop& planned, const std::vector<LevelPlan>& levels,
                const PlannedDevice& device, int64_t processes) {
  Json all = Json::array();
  for (const LevelPlan& level : levels) all.push_back(json_of(level, device, planned.tokens));
  Json assumptions = Json::array();
  for (const std::string& text : device.assumptions) assumptions.push_back(text);
  const Json out(Json::Object{{"device", device.name},
                              {"gpus", processes},
                              {"weights", planned.steps.front().weights},
                              {"trained", planned.steps.front().trained},
                              {"tokens", planned.tokens},
                              {"micro_batches", mean_micros(planned)},
                              {"idle_gpus", idle_gpus(planned, processes)},
                              {"levels", std::move(all)},
                              {"measured", device.measured},
                              {"rates_per_s", json_of(device.rates)},
                              {"assumptions", std::move(assumptions)}});
  std::printf("%s\n", dump_json(out).c_str());
}

void print_table(const std::string& recipe, const PlannedLoop& planned,
                 const std::vector<LevelPlan>& levels, const PlannedDevice& device,
                 int64_t processes) {
  const StepWork& first = planned.steps.front();
  std::string out = fmt::format(
      "{} on {}: {} weights, {} trained; a step of {} tokens in {} (means)\n\n"
      "level  memory a {:<11}step   compute    update  exposed of exchange    tokens/s\n",
      recipe, device.title, count_text(static_cast<int64_t>(first.weights)),
      count_text(static_cast<int64_t>(first.trained)),
      count_text(static_cast<int64_t>(planned.tokens)), micros_text(mean_micros(planned)),
      device.unit);
  for (const LevelPlan& one : levels) {
    const int64_t bytes = total_bytes(one.memory);
    out += fmt::format("{:>5}  {:>8}{:<6}  {:>8}  {:>8}  {:>8}  {:>8} of {:>8}  {:>10}\n",
                       one.level, format_bytes(static_cast<double>(bytes)),
                       bytes > device.memory ? " full" : "", time_text(one.step.step_s()),
                       time_text(one.step.compute_s), time_text(one.step.update_s),
                       time_text(one.step.exposed_s), time_text(one.step.exchange_s),
                       count_text(static_cast<int64_t>(planned.tokens / one.step.step_s())));
  }
  if (levels.front().cached_s < levels.front().step.step_s()) {
    std::string times;
    for (const LevelPlan& one : levels) add_item(times, time_text(one.cached_s));
    out += fmt::format(
        "\nwith all values of references and teachers in the cache a step takes {}\n", times);
  }
  if (const int64_t idle = idle_gpus(planned, processes); idle > 0) {
    out += fmt::format(
        "\n{} of {} {} no work: no planned step has more than {}; larger steps or a smaller "
        "batch.max_tokens make more of them\n",
        count_text(idle), counted(processes, device.unit, device.unit == "GPU" ? "s" : "es"),
        idle == 1 ? "has" : "have", counted(processes - idle, "micro-batch", "es"));
  }
  out += device.measured ? "\nmeasured and assumed\n" : "\nassumed\n";
  for (const std::string& text : device.assumptions) out += "  " + text + "\n";
  std::printf("%s", out.c_str());
}

struct PlanArguments {
  RecipeOptions recipe;
  RateShares shares;
  int64_t processes = 1;
  std::string device = "h100";
  bool json = false;
};

void add_plan_arguments(CLI::App& app, PlanArguments& plan) {
  add_recipe_arguments(app, plan.recipe);
  add_trust_arguments(app);
  // A recipe's --device is where it runs; here it is the GPU to plan for.
  app.remove_option(app.get_option("--device"));
  app.add_option("--gpus", plan.processes, "number of GPUs, or of processes on a CPU (1)")
      ->check(whole_number(1));
  app.add_option("--device", plan.device,
                 "the model of the GPUs (h100); this: what a run on this machine would use")
      ->type_name("a100|h100|h200|this");
  app.add_option("--utilisation", plan.shares.utilisation,
                 "share of the published rate that products reach, 0.01 to 1 (0.4)")
      ->check(share_of_one(0.01));
  app.add_flag("--json", plan.json, "one JSON object");
}

}  // namespace

int command_plan(int argc, char** argv) {
  PlanArguments plan;
  CLI::App app(
      "Predicts the memory of each GPU and the time of a step at each dist.level for a recipe, "
      "from the shapes of its model, the packs of some of its steps, and published rates, or with "
      "--device this the rates that are measured on this machine. Loads no weights. Exit status 2: "
      "no level fits.",
      "xrun plan");
  add_plan_arguments(app, plan);
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  const bool here = plan.device == "this";
  if (here && app.count("--utilisation") > 0) {
    throw UsageError(
        "--utilisation is a share of a published rate; --device this measures the rate");
  }
  // First, so that an unknown name is an error before the recipe is opened.
  const ClusterDevice* const sheet = here ? nullptr : &cluster_device(plan.device);
  plan.recipe.device_given = true;  // only shapes are read: on the CPU, whatever a bundle ran on
  RecipeOptions options = preview_options(app, std::move(plan.recipe));
  if (here) use_this_machine(options, plan.processes);
  const auto quiet = std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{});
  const std::unique_ptr<Preview> preview = open_preview(options, quiet);
  if (preview->error() != nullptr) throw UsageError(preview->error()->headline());
  if (preview->pause() == nullptr) throw UsageError(preview->no_loop_text());
  const c10::DeviceType type = here ? recipe_device(options).type() : c10::kCUDA;
  const PlannedLoop planned = planned_loop(*preview->pause(), type);
  const PlannedDevice device = here ? measured_device(planned, options, plan.processes)
                                    : published_device(*sheet, plan.shares, plan.processes);
  std::vector<LevelPlan> levels;
  const int64_t highest = plan.processes == 1 ? 0 : 3;
  for (int64_t level = 0; level <= highest; ++level) {
    levels.push_back(plan_level(planned, device, plan.processes, level));
  }
  const auto fits = [&](const LevelPlan& one) { return total_bytes(one.memory) <= device.memory; };
  if (plan.json) {
    print_json(planned, levels, device, plan.processes);
  } else {
    print_table(options.recipe, planned, levels, device, plan.processes);
  }
  return std::any_of(levels.begin(), levels.end(), fits) ? 0 : 2;
}

}  // namespace xrun
