// failed_batch.json:
// {"step","packs":[{"pack","rows":[{"row","source","pair","side","tokens",...}]}]}

#include "core/run/failed_batch.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/strings.h"
#include "core/data/packs/packed_batch.h"

namespace xrun {

namespace {

constexpr size_t kNamedRows = 8;

const char* side_name(int8_t side) {
  if (side > 0) return "chosen";
  return side < 0 ? "rejected" : "none";
}

Json tokens_of(const PackedBatch& pack, int32_t begin, int32_t end) {
  Json tokens = Json::array();
  for (int32_t t = begin; t < end; ++t) tokens.push_back(pack.tokens[static_cast<size_t>(t)]);
  return tokens;
}

// Loss rows of a segment as [index of the target in the segment, target, weight].
Json targets_of(const PackedBatch& pack, int32_t segment, int32_t begin) {
  Json targets = Json::array();
  for (size_t r = 0; r < pack.rows.hidden.size(); ++r) {
    if (pack.rows.segment[r] != segment) continue;
    Json target = Json::array();
    // The hidden state at t predicts token t + 1.
    target.push_back(pack.rows.hidden[r] + 1 - begin);
    target.push_back(pack.rows.target[r]);
    target.push_back(static_cast<double>(pack.rows.weight[r]));
    targets.push_back(std::move(target));
  }
  return targets;
}

Json describe_pack(const PackedBatch& pack, const RowName& name) {
  Json rows = Json::array();
  for (size_t s = 0; s + 1 < pack.cu_seqlens.size(); ++s) {
    const int32_t begin = pack.cu_seqlens[s];
    Json row = Json::object();
    row.set("row", pack.row_id[s]);
    row.set("source", name(pack.row_id[s]));
    row.set("pair", pack.pair_id[s]);
    row.set("side", side_name(pack.side[s]));
    row.set("tokens", tokens_of(pack, begin, pack.cu_seqlens[s + 1]));
    row.set("targets", targets_of(pack, static_cast<int32_t>(s), begin));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json describe_batch(int64_t step, std::span<const PackedBatch* const> packs, const RowName& name) {
  Json all = Json::array();
  for (size_t i = 0; i < packs.size(); ++i) {
    Json pack = Json::object();
    pack.set("pack", static_cast<int64_t>(i));
    pack.set("rows", describe_pack(*packs[i], name));
    all.push_back(std::move(pack));
  }
  Json batch = Json::object();
  batch.set("step", step);
  batch.set("packs", std::move(all));
  return batch;
}

std::string save_failed_batch(const std::filesystem::path& dir, int64_t step,
                              std::span<const PackedBatch* const> packs, const RowName& name) {
  const auto path = dir / "failed_batch.json";
  write_file_atomic(path, dump_json(describe_batch(step, packs, name)) + "\n");
  std::vector<int64_t> ids;  // each once, in the batch's order
  for (const PackedBatch* pack : packs) {
    for (const int64_t id : pack->row_id) {
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  std::vector<std::string> rows;
  for (const int64_t id : ids) rows.push_back(name(id));
  // The file has all of them; a line of a terminal has room for some.
  return fmt::format("the batch is saved in {}; its rows: {}", path.string(),
                     listed(rows, kNamedRows));
}

}  // namespace xrun
