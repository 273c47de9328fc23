// The batch of a non-finite loss is saved with all its tokens and named in the message.

#include "core/run/failed_batch.h"

#include <gtest/gtest.h>

#include "core/data/packs/packed_batch.h"
#include "tests/scratch_folder.h"

namespace xrun::failed_batch_test {
namespace {

std::string name_row(int64_t row) { return "pairs.jsonl:" + std::to_string(row + 1); }

PackedBatch pair_of(int64_t row) {
  PackedBatch pack;
  PackedBatch::Segment segment;
  segment.row_id = row;
  segment.pair_id = 0;
  segment.side = 1;
  pack.append(segment, {5, 6, 7}, {0, 0, 1});
  segment.side = -1;
  pack.append(segment, {5, 8}, {0, 1});
  return pack;
}

TEST(FailedBatch, HoldsTokensAndTargetsOfEverySegment) {
  const PackedBatch pack = pair_of(16);
  const PackedBatch* packs[] = {&pack};
  EXPECT_EQ(dump_json(describe_batch(40, packs, name_row)),
            "{\"step\":40,\"packs\":[{\"pack\":0,\"rows\":["
            "{\"row\":16,\"source\":\"pairs.jsonl:17\",\"pair\":0,\"side\":\"chosen\","
            "\"tokens\":[5,6,7],\"targets\":[[2,7,1.0]]},"
            "{\"row\":16,\"source\":\"pairs.jsonl:17\",\"pair\":0,\"side\":\"rejected\","
            "\"tokens\":[5,8],\"targets\":[[1,8,1.0]]}]}]}");
}

TEST(FailedBatch, IsNamedInTheMessage) {
  const ScratchFolder folder;
  const PackedBatch a = pair_of(16), b = pair_of(3);
  const PackedBatch* packs[] = {&a, &b, &a};
  const std::string path = (folder / "failed_batch.json").string();
  EXPECT_EQ(save_failed_batch(folder.path(), 40, packs, name_row),
            "the batch is saved in " + path + "; its rows: pairs.jsonl:17, pairs.jsonl:4");
  EXPECT_EQ(parse_json(text_of(path), path), describe_batch(40, packs, name_row));
}

}  // namespace
}  // namespace xrun::failed_batch_test
