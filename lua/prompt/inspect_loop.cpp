// A step of a paused loop as packs, for xrun inspect, :batch N and :batch.

#include "lua/prompt/inspect_loop.h"

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/model/weights/hf_config.h"
#include "core/train/batches/batch.h"
#include "core/train/batches/computed_pack.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/paused_run.h"

namespace xrun {

std::vector<InspectedStep> inspect_loop(const LoopPause& pause, const std::string& recipe,
                                        int64_t step, int64_t rows) {
  const StepLoop& loop = *pause.loop;
  const int64_t end = loop.first_step + loop.steps;
  XRUN_CHECK(step >= loop.first_step && step < end,
             "this loop has no step {}; its steps are {} to {}", step, loop.first_step, end - 1);
  std::vector<InspectedStep> sets;
  int64_t pairs = 0;
  for (const StepSource& source : loop.sources) {
    const DataHandle& data = *source.data;
    InspectedSource from{data.set, *data.policy->tokenizer(), recipe, data.name, step,
                         end,      loop.max_tokens,           pairs,  loop.fold};
    // The config file is read once, not for each pack.
    from.frequency_classes = [config =
                                  read_model_config(data.policy->dir())](const PackedBatch& pack) {
      return frequency_classes(pack, config);
    };
    sets.push_back(inspect_step(from, source.plan, step - loop.first_step, rows));
    // The number of a pair is unique in the step, over all its sets.
    pairs += sets.back().units;
  }
  return sets;
}

int64_t batch_rows(std::string_view text) {
  const auto rows = whole_number_of(text);
  XRUN_CHECK(rows && *rows > 0, ":batch {}: wanted a number of rows, as in `:batch 3`", text);
  return *rows;
}

std::string loop_text(const LoopPause& pause, const std::string& recipe, int64_t step, int64_t rows,
                      const ConsoleTraits& traits) {
  std::string text;
  for (const InspectedStep& set : inspect_loop(pause, recipe, step, rows)) {
    if (!text.empty()) text += '\n';
    text += step_text(set, {traits.colors, traits.width});
  }
  return text;
}

// Lists the segments of the batch; loop_text() shows their tokens.
std::string batch_text(PausedRun& paused) {
  const LoopPause& at = paused.pause();
  std::string text;
  for (size_t source = 0; source < at.loop->sources.size(); ++source) {
    const std::shared_ptr<Batch> batch = paused.batch(source);
    TextTable table(
        {"pack", "segment", "side", "tokens", "trained", "row"},
        {Align::kRight, Align::kRight, Align::kLeft, Align::kRight, Align::kRight, Align::kLeft});
    for (const auto& micro : batch->micros()) {
      const PackedBatch& pack = micro->pack();
      std::vector<int64_t> trained(static_cast<size_t>(pack.segment_count()), 0);
      for (const int32_t s : pack.rows.segment) ++trained[static_cast<size_t>(s)];
      for (size_t s = 0; s < trained.size(); ++s) {
        const int8_t side = pack.side.empty() ? int8_t{0} : pack.side[s];
        table.add({std::to_string(micro->index()), std::to_string(s),
                   side > 0   ? "chosen"
                   : side < 0 ? "rejected"
                              : "",
                   std::to_string(pack.cu_seqlens[s + 1] - pack.cu_seqlens[s]),
                   std::to_string(trained[s]), shown_text(micro->row_name(pack.row_id[s]))});
      }
    }
    const std::string heading =
        fmt::format("step {}: {} sequences, {} tokens, {}\n", batch->step(), batch->size(),
                    batch->token_count(), counted(std::ssize(batch->micros()), "pack"));
    add_item(text, heading + table.text(paused.session().console->traits().width), "\n");
  }
  return text;
}

}  // namespace xrun
