#pragma once
// The batch behind a non-finite loss, written to a file so that its rows can be read.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "core/base/json.h"

namespace xrun {

struct PackedBatch;

// Returns the name of a data row, "pairs.jsonl:17".
using RowName = std::function<std::string(int64_t row_id)>;

// Returns {"step","packs":[{"pack","rows":[{"row","source","pair","side","tokens","targets":
// [[index,target,weight],..]}]}]}: every segment with its token ids and its loss rows, the index
// counted inside the segment.
Json describe_batch(int64_t step, std::span<const PackedBatch* const> packs, const RowName& name);

// Writes `dir`/failed_batch.json and returns "the batch is saved in FILE; its rows: a:1, a:7, ..."
// (at most 8 named) for the error message. Throws Error if the file cannot be
// written.
std::string save_failed_batch(const std::filesystem::path& dir, int64_t step,
                              std::span<const PackedBatch* const> packs, const RowName& name);

}  // namespace xrun
