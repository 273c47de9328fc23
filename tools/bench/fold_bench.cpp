// Times folding packs and planning them, after checking every fold against its pack.
//   fold_bench [RUNS]
// One thread. Rates are tokens of the pack, before folding; the peer is a copy of its tokens.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/data/packs/pack_plan.h"
#include "core/prefix/folded_pack.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

struct Shape {
  const char* name;
  uint64_t groups, samples, prompt, answer;
  uint64_t turns = 1;  // each repeats the whole history before it
};

constexpr Shape kShapes[] = {
    {"pairs of 512 + 128", 8, 2, 512, 128},
    {"8 groups of 8, 1,024 + 256", 8, 8, 1024, 256},
    {"a group of 64, 32,768 + 1,024", 1, 64, 32768, 1024},
    {"agents of 40 turns, 8 samples", 4, 8, 200, 100, 40},
    {"1,024 segments that share nothing", 1024, 1, 0, 400},
};

int32_t token(uint64_t stream, uint64_t at) {
  return static_cast<int32_t>(philox_unit(17, stream, at, 0) * 50000);
}

// Samples of a group share their prompt; the last one of the first turn is continued.
PackedBatch pack_of(const Shape& shape) {
  PackedBatch batch;
  uint64_t stream = 1;
  for (uint64_t g = 0; g < shape.groups; ++g) {
    std::vector<int32_t> history;
    // Prompts have even streams, answers odd ones, so they share nothing by chance.
    for (uint64_t t = 0; t < shape.prompt; ++t) history.push_back(token(g * 2, t));
    for (uint64_t turn = 0; turn < shape.turns; ++turn) {
      for (uint64_t s = turn == 0 ? 0 : shape.samples - 1; s < shape.samples; ++s) {
        std::vector<int32_t> ids = history;
        for (uint64_t t = 0; t < shape.answer; ++t) ids.push_back(token(stream * 2 + 1, t));
        ++stream;
        std::vector<uint8_t> trained(ids.size(), 0);
        std::fill(trained.end() - static_cast<int64_t>(shape.answer), trained.end(), 1);
        batch.append({}, ids, trained);
        if (s + 1 == shape.samples) history = ids;
      }
    }
  }
  batch.validate(50000);
  return batch;
}

std::vector<UnitTokens> units_of(const PackedBatch& batch) {
  std::vector<UnitTokens> units;
  for (size_t s = 0; s + 1 < batch.cu_seqlens.size(); ++s) {
    const int32_t begin = batch.cu_seqlens[s], end = batch.cu_seqlens[s + 1];
    units.push_back({TokenList(batch.tokens.data() + begin, static_cast<size_t>(end - begin))});
  }
  return units;
}

void bench(const Shape& shape, int runs) {
  const PackedBatch batch = pack_of(shape);
  const FoldedPack fold = fold_pack(batch);
  fold.validate(batch);
  const double tokens = static_cast<double>(batch.token_count());
  const auto rates = [&](const std::vector<double>& ms) {
    std::vector<double> values;
    for (const double t : ms) values.push_back(tokens / t / 1e3);
    return values;
  };
  print_note("{}: {} tokens computed as {}, {} nodes\n", shape.name, batch.token_count(),
             fold.token_count(), fold.node_count());
  size_t sink = 0;
  const Pairs folds = interleave(
      runs, [&] { sink += fold_pack(batch).tokens.size(); },
      [&] { sink += std::vector<int32_t>(batch.tokens).size(); });
  print_figure(
      {"fold", rates(folds.a_ms), "M tokens/s", folds.ratio, "times a copy of the tokens"});
  const std::vector<UnitTokens> units = units_of(batch);
  PackLimits limits(65536);
  limits.fold = true;
  std::vector<double> plan_ms, check_ms;
  for (int run = 0; run < runs; ++run) {
    Stopwatch watch;
    sink += plan_folded_packs(units, limits).size();
    plan_ms.push_back(watch.lap_ms());
    fold.validate(batch);
    check_ms.push_back(watch.lap_ms());
  }
  print_figure({"plan", rates(plan_ms), "M tokens/s"});
  print_figure({"validate", rates(check_ms), "M tokens/s"});
  // Without a use of the results, the compiler could drop the work.
  XRUN_CHECK(sink > 0, "nothing was folded");
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  try {
    const int runs = argc > 1 ? std::atoi(argv[1]) : 21;
    for (const xrun::Shape& shape : xrun::kShapes) xrun::bench(shape, std::max(1, runs));
  } catch (const std::exception& error) {
    fmt::print(stderr, "fold_bench: {}\n", error.what());
    return 1;
  }
}
