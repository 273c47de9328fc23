#include "lua/prompt/batch_text.h"

#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/train/batch.h"
#include "lua/bind/run_loop.h"
#include "lua/prompt/stepper.h"

namespace xrun {

std::string batch_text(Stepper& stepper) {
  const LoopPause& at = stepper.pause();
  std::string text;
  for (size_t source = 0; source < at.loop->sources.size(); ++source) {
    const std::shared_ptr<Batch> batch = stepper.batch(source);
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
    text += fmt::format("{}step {}: {} sequences, {} tokens, {} pack{}\n", text.empty() ? "" : "\n",
                        batch->step(), batch->size(), batch->token_count(), batch->micros().size(),
                        batch->micros().size() == 1 ? "" : "s") +
            table.text(stepper.session().console->traits().width);
  }
  return text;
}

}  // namespace xrun
