// The report before step 0: what trains, on which data, and where it goes.

#include "core/base/count_text.h"
#include "core/console/terminal/summary.h"
#include "core/model/weights/hf_config.h"
#include "lua/bind/run_loop.h"

namespace xrun {

namespace {

std::string describe_model(const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  return fmt::format("{} ({}, {} layer{}, width {}, {})", policy.dir().filename().string(),
                     config.model_type, config.layers, config.layers == 1 ? "" : "s", config.hidden,
                     dtype_name(policy.options().dtype));
}

const char* order_text(const RowOrder& order) {
  switch (order.kind) {
    case RowOrder::Kind::kFile: return "";
    case RowOrder::Kind::kFull: return ", shuffled";
    case RowOrder::Kind::kBlock: return ", shuffled by blocks";
  }
  return "";
}

int64_t count_elements(const std::vector<Parameter>& parameters) {
  int64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.master.numel();
  return sum;
}

}  // namespace

void RunLoop::report(const StepLoop& loop) {
  OpeningReport report;
  report.recipe = recipe_;
  if (!policies_.empty()) {
    report.model = describe_model(*policies_[0]);
    if (policies_[0]->loaded()) {
      report.parameters = count_elements(policies_[0]->model().parameters());
      report.trainable = count_elements(policies_[0]->parameters());
    }
  }
  report.ledger = session_.ledger_text;
  session_.ledger_text.clear();
  report.steps = loop.steps;
  for (const StepSource& source : loop.sources) {
    const DataSet& set = source.data->set;
    report.facts.emplace_back(
        "data",
        fmt::format("{} {}{}, {} a step{}", count_text(set.size()), set.unit_name(),
                    set.size() == 1 ? "" : "s", source.plan.units, order_text(source.plan.order)));
  }
  if (memory_) report.facts.emplace_back("memory", describe_plan(memory_->planned()));
  if (session_.scratch == nullptr) report.output = run_->dir().path().string();
  report.notices = std::move(session_.notices);
  session_.notices.clear();
  session_.console->print(opening_report(report, *session_.console));
  if (run_->dir().resuming() || loop.phase > 0) return;
  run_->dir().begin();
  run_->dir().log_line(opening_report(report, console_of_file(*session_.console)));
}

}  // namespace xrun
