// Times opening a data set of preference pairs up to the packs of its first step, after checking
// that the packs hold the tokens that the rows have.
//   first_batch_bench TOKENIZER_DIR PAIRS.jsonl [RUNS]
// "build" makes the cache in an empty folder; "open" opens the built one.

#include <fmt/core.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/temporary_dir.h"
#include "core/config/config_field.h"
#include "core/data/cache/row_cache.h"
#include "core/data/packs/data_set.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

constexpr StepPlan kPlan{.units = 8, .epochs = 1, .order = {}, .seed = 0};

int64_t first_step_tokens(const DataOptions& options, const Tokenizer& tokenizer,
                          const std::shared_ptr<const ChatTemplate>& chat_template) {
  const DataSet set = DataSet::open(options, tokenizer, chat_template);
  const std::vector<int64_t> rows = set.step_units(kPlan, 0);
  int64_t packed = 0, wanted = 0;
  for (const PackedBatch& pack : set.pack(rows, kMaxMicroTokens)) packed += pack.tokens.size();
  for (const int64_t row : rows) wanted += set.tokens(row);
  XRUN_CHECK(packed == wanted, "the packs hold {} tokens, the rows {}", packed, wanted);
  return packed;
}

void bench(const std::string& tokenizer_dir, const std::string& pairs, int runs) {
  const TemporaryDir scratch("first_batch_bench");
  DataOptions options;
  options.sources.emplace_back().path = pairs;
  std::vector<double> load_ms, build_ms, open_ms, ratio;
  for (int i = 0; i < runs; ++i) {
    options.cache_root = scratch.path() / std::to_string(i);
    Stopwatch watch;
    const auto tokenizer = Tokenizer::load(tokenizer_dir);
    const auto resolved = resolve_template(*tokenizer);
    load_ms.push_back(watch.lap_ms());
    const int64_t built = first_step_tokens(options, *tokenizer, resolved.chat_template);
    build_ms.push_back(watch.lap_ms());
    const int64_t opened = first_step_tokens(options, *tokenizer, resolved.chat_template);
    open_ms.push_back(watch.lap_ms());
    ratio.push_back(open_ms.back() / build_ms.back());
    XRUN_CHECK(built == opened, "{} tokens when built, {} when opened", built, opened);
  }
  print_figure({"first batch of a built cache", open_ms, "ms", ratio, "of the time to build it"});
  print_figure({"first batch with building", build_ms, "ms"});
  print_figure({"loading tokenizer and template", load_ms, "ms"});
}

}  // namespace
}  // namespace xrun

int main(int count, char** arguments) {
  if (count != 3 && count != 4) {
    fmt::print(stderr, "usage: first_batch_bench TOKENIZER_DIR PAIRS.jsonl [RUNS]\n");
    return 2;
  }
  try {
    xrun::bench(arguments[1], arguments[2], count == 4 ? std::stoi(arguments[3]) : 11);
  } catch (const std::exception& error) {
    fmt::print(stderr, "first_batch_bench: {}\n", error.what());
    return 1;
  }
}
