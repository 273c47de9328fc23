// xrun plan: memory per rank and time of a recipe's step on a cluster, predicted from shapes.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/terminal/console.h"
#include "core/console/terminal/progress.h"
#include "core/model/cost/memory_plan.h"
#include "core/model/cost/step_forecast.h"
#include "core/model/flops.h"
#include "core/model/weights/trained_weights.h"
#include "core/model/weights/weight_layout.h"
#include "core/prefix/folded_pack.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/memory_report.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/finding_report.h"
#include "tools/commands/engine/recipe_arguments.h"
#include "tools/commands/trust_arguments.h"

namespace xrun {

namespace {

constexpr int64_t kPlannedSteps = 4;  // spread over the loop; their mean is planned

// FLOPs of a pack under a model, forward, with its vocabulary projection.
struct PackWork {
  PackFlops blocks;
  double head = 0;
};

PackWork work_of(const ModelConfig& config, const PackedBatch& pack, const FoldSettings& fold,
                 const AdapterOptions* adapter) {
  // By the rule of the step itself, so that the plan counts what a run would compute.
  const auto tree = fold_where_it_pays(pack, fold);
  if (!tree) {
    return {pack_flops(config, pack.cu_seqlens, {}, adapter), head_flops(config, pack.rows.size())};
  }
  return {pack_flops(config, tree->node_begin, tree->parent, adapter),
          head_flops(config, std::ssize(tree->edge_target))};
}

// The models, and the work of steps spread over the loop.
struct PlannedLoop {
  std::vector<PlannedModel> models;
  PlannedModel policy;
  std::vector<StepWork> steps;
  double tokens = 0;  // per step on average, before folding
};

PlannedLoop planned_loop(const LoopPause& pause) {
  const StepLoop& loop = *pause.loop;
  const RunModels models = pause.run->models();
  PlannedLoop out;
  out.models = planned_models(models, loop, c10::kCUDA);
  const auto policy = std::find_if(out.models.begin(), out.models.end(),
                                   [](const PlannedModel& one) { return one.shape.trains; });
  XRUN_CHECK(policy != out.models.end(),
             "no optimizer was given to xrun.run, so there is nothing to plan: xrun.run(cfg, "
             "{{ policy = policy, adamw = adamw }})");
  out.policy = *policy;
  const ModelConfig& config = policy->config;
  const AdapterOptions* const adapter = policy->shape.adapter ? &*policy->shape.adapter : nullptr;
  StepWork none{.micros = {}, .weights = weight_elements(config), .trained = 0};
  none.trained = adapter == nullptr ? trained_elements(config, policy->shape.train)
                                    : adapter_elements(*adapter, config);
  none.recompute = policy->shape.recompute;
  // The part of the weights with gradients: a frozen one costs no product for its gradient.
  const double share = adapter == nullptr ? none.trained / none.weights : 0;
  const int64_t steps = std::min(kPlannedSteps, loop.steps);
  for (int64_t k = 0; k < steps; ++k) {
    // Spread over the loop, since a mixture or schedule changes the packs.
    const int64_t step = loop.first_step + loop.steps * k / steps;
    StepWork& work = out.steps.emplace_back(none);
    for (size_t s = 0; s < loop.sources.size(); ++s) {
      XRUN_CHECK(!loop.sources[s].answers,
                 "this loop samples its answers, whose time is not predicted; xrun check has the "
                 "memory of a step");
      for (const PackedBatch& pack : loop.packs(step, s)) {
        const PackWork one = work_of(config, pack, loop.fold, adapter);
        MicroWork micro{.forward = one.blocks.forward() + one.head,
                        .backward = one.blocks.backward(share) + (1 + share) * one.head};
        // A reference has the policy's shapes and reads the same rows.
        micro.frozen = static_cast<double>(models.references.size()) * micro.forward;
        for (const auto& frozen : models.frozen) {
          const PackWork other = work_of(frozen->config(), pack, loop.fold, nullptr);
          micro.frozen += other.blocks.forward() + other.head;
        }
        out.tokens += static_cast<double>(pack.token_count()) / static_cast<double>(steps);
        work.micros.push_back(micro);
      }
    }
  }
  return out;
}

// One level of dist.level.
struct LevelPlan {
  int64_t level = 0;
  std::vector<MemoryKind> memory;
  StepForecast step;
};

LevelPlan plan_level(PlannedLoop planned, const ClusterDevice& device, ForecastTerms terms,
                     int64_t level) {
  terms.level = level;
  for (PlannedModel& model : planned.models) {
    model.shape.ranks = terms.gpus;
    // One GPU has nobody to share with.
    model.shape.level = terms.gpus > 1 ? level : 0;
    // The plan is of GPUs, whatever type this machine would use.
    model.shape.dtype = c10::ScalarType::BFloat16;
    model.shape.gemm = GemmType::kStorage;
  }
  LevelPlan out{.level = level, .memory = memory_plan(planned.models), .step = {}};
  const auto count = static_cast<double>(planned.steps.size());
  for (const StepWork& work : planned.steps) {
    const StepForecast one = forecast_step(work, device, terms);
    out.step.compute_s += one.compute_s / count;
    out.step.update_s += one.update_s / count;
    out.step.exchange_s += one.exchange_s / count;
    out.step.exposed_s += one.exposed_s / count;
    out.step.sent_bytes += one.sent_bytes / count;
  }
  return out;
}

// "1.4 s", "38 ms"
std::string time_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::vector<std::string> assumptions_of(const ClusterDevice& device, const ForecastTerms& terms) {
  return {
      fmt::format("{}: {} of memory, {:.0f} TFLOP/s of dense bf16 products, {:.2f} TB/s; {:.0f} "
                  "GB/s to the other {} GPUs of its machine, {:.0f} GB/s to other machines (data "
                  "sheets)",
                  device.name, format_bytes(static_cast<double>(device.memory)),
                  device.flops / 1e12, device.bandwidth / 1e12, device.near_link / 1e9,
                  device.near - 1, device.far_link / 1e9),
      fmt::format("a step reaches {:.0f} % of the products' rate (published: 39 % for torchtitan's "
                  "8B on 8 H100, 57 to 61 % for llm.q's 1.5B to 7B), {:.0f} % of the links', "
                  "{:.0f} % of the memory's",
                  100 * terms.utilisation, 100 * terms.link_share, 100 * terms.memory_share),
      "a backward and the step's next forward hide gradients; the next step's first forward hides the "
      "weights that level 1 sends after an update, and of level 2 the last four buckets, 16 MiB each; "
      "nothing hides the gradients that level 0 gathers",
      "a reference or teacher computes every row: with values in the cache a step is shorter",
      "bf16, masters and moments in fp32; none of this has been measured on a GPU"};
}

double mean_micros(const PlannedLoop& planned) {
  double sum = 0;
  for (const StepWork& work : planned.steps) sum += static_cast<double>(work.micros.size());
  return sum / static_cast<double>(planned.steps.size());
}

// GPUs that compute no micro-batch in any planned step.
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

Json json_of(const LevelPlan& level, const ClusterDevice& device, double tokens) {
  Json memory = Json::object();
  memory.set("total", total_bytes(level.memory));
  for (const MemoryKind& kind : level.memory) memory.set(kind.name, kind.bytes);
  Json out = Json::object();
  out.set("level", level.level);
  out.set("memory", std::move(memory));
  out.set("fits", total_bytes(level.memory) <= device.memory);
  out.set("step_s", level.step.step_s());
  out.set("compute_s", level.step.compute_s);
  out.set("update_s", level.step.update_s);
  out.set("exchange_s", level.step.exchange_s);
  out.set("exposed_s", level.step.exposed_s);
  out.set("sent_bytes", level.step.sent_bytes);
  out.set("tokens_per_s", tokens / level.step.step_s());
  return out;
}

void print_json(const PlannedLoop& planned, const std::vector<LevelPlan>& levels,
                const ClusterDevice& device, const ForecastTerms& terms) {
  Json all = Json::array();
  for (const LevelPlan& level : levels) all.push_back(json_of(level, device, planned.tokens));
  Json assumptions = Json::array();
  for (const std::string& text : assumptions_of(device, terms)) {
    assumptions.push_back(text);
  }
  const Json out(Json::Object{{"device", std::string(device.name)},
                              {"gpus", terms.gpus},
                              {"weights", planned.steps.front().weights},
                              {"trained", planned.steps.front().trained},
                              {"tokens", planned.tokens},
                              {"micro_batches", mean_micros(planned)},
                              {"idle_gpus", idle_gpus(planned, terms.gpus)},
                              {"levels", std::move(all)},
                              {"assumptions", std::move(assumptions)}});
  std::printf("%s\n", dump_json(out).c_str());
}

void print_table(const std::string& recipe, const PlannedLoop& planned,
                 const std::vector<LevelPlan>& levels, const ClusterDevice& device,
                 const ForecastTerms& terms) {
  const StepWork& first = planned.steps.front();
  std::string out = fmt::format(
      "{} on {} {}: {} weights, {} trained; a step of {} tokens in {} (means)\n\n"
      "level  memory a GPU        step   compute    update  exposed of exchange    tokens/s\n",
      recipe, terms.gpus, device.name, count_text(static_cast<int64_t>(first.weights)),
      count_text(static_cast<int64_t>(first.trained)),
      count_text(static_cast<int64_t>(planned.tokens)), micros_text(mean_micros(planned)));
  for (const LevelPlan& one : levels) {
    const int64_t bytes = total_bytes(one.memory);
    out += fmt::format("{:>5}  {:>8}{:<6}  {:>8}  {:>8}  {:>8}  {:>8} of {:>8}  {:>10}\n",
                       one.level, format_bytes(static_cast<double>(bytes)),
                       bytes > device.memory ? " full" : "", time_text(one.step.step_s()),
                       time_text(one.step.compute_s), time_text(one.step.update_s),
                       time_text(one.step.exposed_s), time_text(one.step.exchange_s),
                       count_text(static_cast<int64_t>(planned.tokens / one.step.step_s())));
  }
  if (const int64_t idle = idle_gpus(planned, terms.gpus); idle > 0) {
    out += fmt::format(
        "\n{} of {} GPUs {} no work: no planned step has more than {}; larger steps or a smaller "
        "batch.max_tokens make more of them\n",
        count_text(idle), count_text(terms.gpus), idle == 1 ? "has" : "have",
        counted(terms.gpus - idle, "micro-batch", "es"));
  }
  out += "\nassumed\n";
  for (const std::string& text : assumptions_of(device, terms)) {
    out += "  " + text + "\n";
  }
  std::printf("%s", out.c_str());
}

}  // namespace

int command_plan(int argc, char** argv) {
  RecipeOptions options;
  ForecastTerms terms;
  std::string device_name = "h100";
  bool json = false;
  CLI::App app(
      "Predicts the memory of each GPU and the time of a step at each dist.level for a recipe, "
      "from the shapes of its model, the packs of some of its steps, and published rates. Loads no "
      "weights; nothing is measured. Exit status 2: no level fits.",
      "xrun plan");
  add_recipe_arguments(app, options);
  add_trust_arguments(app);
  app.remove_option(app.get_option("--device"));
  app.add_option("--gpus", terms.gpus, "number of GPUs (1)")->check(whole_number(1));
  app.add_option("--device", device_name, "the model of the GPUs (h100)")
      ->type_name("a100|h100|h200");
  app.add_option("--utilisation", terms.utilisation,
                 "share of the published rate that products reach, 0.01 to 1 (0.4)")
      ->check(share_of_one(0.01));
  app.add_flag("--json", json, "one JSON object");
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  const ClusterDevice& device = cluster_device(device_name);
  options.device_given = true;  // shapes alone are read: on the CPU, whatever a bundle ran on
  options = preview_options(app, std::move(options));
  const auto quiet = std::make_shared<Console>([](std::string_view) {}, ConsoleTraits{});
  const std::unique_ptr<Preview> preview = open_preview(options, quiet);
  if (preview->error() != nullptr) throw UsageError(preview->error()->headline());
  if (preview->pause() == nullptr) throw UsageError(preview->no_loop_text());
  const PlannedLoop planned = planned_loop(*preview->pause());
  std::vector<LevelPlan> levels;
  const int64_t highest = terms.gpus == 1 ? 0 : 3;
  for (int64_t level = 0; level <= highest; ++level) {
    levels.push_back(plan_level(planned, device, terms, level));
  }
  const auto fits = [&](const LevelPlan& one) { return total_bytes(one.memory) <= device.memory; };
  if (json) {
    print_json(planned, levels, device, terms);
  } else {
    print_table(options.recipe, planned, levels, device, terms);
  }
  return std::any_of(levels.begin(), levels.end(), fits) ? 0 : 2;
}

}  // namespace xrun
