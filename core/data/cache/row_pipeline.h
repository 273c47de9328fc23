#pragma once
// Encodes the rows of a source on several threads; one thread takes them in source order.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/data/cache/data_files.h"
#include "core/data/cache/stored_row.h"
#include "core/data/rows/row.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

class TooLongError;

// One encoded row.
struct RowOutcome {
  StoredRow row;               // repairs count even if the row is refused
  std::string reason, detail;  // of the refusal; reason "": the row is used
  int64_t tokens_above = 0;    // tokens of a row refused for max_length, else 0
};

// A block of encoded rows.
struct EncodedBlock {
  int32_t file = 0;
  RowForm form = RowForm::kJson;
  RowBlock raw;
  std::vector<RowOutcome> outcomes;  // of the first `encoded` rows of raw
  size_t encoded = 0;
  size_t held = 0;           // bytes of the content and of the encoded rows
  std::exception_ptr error;  // to be thrown after the encoded rows; ends the build
  uint64_t raw_bytes = 0;    // bytes of the file that are read so far
  bool ends_file = false;    // a block without rows, after the last one of a file
  std::string file_digest;   // of the file's bytes, if ends_file
};

struct PipelineOptions {
  int workers = 0;                       // threads; 0: one per core
  size_t block_bytes = size_t{1} << 20;  // of content; a block ends with a row
};

// One worker at a time reads the block that it then encodes; no lock is taken per row. Memory is
// bounded: a new block is read only while the blocks not yet released, with their encoded rows,
// hold less than 3 * (workers + 2) * block_bytes and are fewer than 4 * (workers + 2). The block of
// a huge row comes on top of that, and no other block is read until it is released.
class RowPipeline {
 public:
  // Starts reading at file `first` of `files`, or where `splitter`, if given, is in that file.
  // `files` must outlive this. Throws what `make_encoder` throws.
  RowPipeline(const std::vector<DataFile>& files, const RowSchema& schema,
              const RowEncoderMaker& make_encoder, const PipelineOptions& options, int32_t first,
              std::unique_ptr<RowSplitter> splitter);
  // Waits until each worker has finished its current row.
  ~RowPipeline();

  // Returns the next block in source order; nullptr after the last. Calls `waiting`, which may
  // throw, every 50 ms while it waits.
  std::unique_ptr<EncodedBlock> next(const std::function<void()>& waiting);
  // Gives a block back, so that its memory is reused.
  void release(std::unique_ptr<EncodedBlock> block);

 private:
  struct BlockSlot {
    std::unique_ptr<EncodedBlock> block;
    bool ready = false;
  };
  void work(RowEncoder& encoder);
  void end_threads();
  std::shared_ptr<BlockSlot> read_slot();
  size_t room() const;  // another block is read while fewer bytes are held
  bool wait_for_room();
  void weigh(EncodedBlock& block);  // adds the bytes of its encoded rows
  std::unique_ptr<EncodedBlock> empty_block();
  bool read_block(EncodedBlock& block);
  void encode_block(RowEncoder& encoder, EncodedBlock& block) const;
  void encode_row(RowEncoder& encoder, EncodedBlock& block, size_t row) const;
  TooLongError count_long_rows(RowEncoder& encoder, EncodedBlock& block,
                               const TooLongError& first) const;

  const std::vector<DataFile>& files_;
  PipelineOptions options_;
  ColumnType ids_;
  std::vector<std::unique_ptr<RowEncoder>> encoders_;  // one per thread

  std::mutex reading_;  // held by the worker that reads; guards file_ and splitter_
  int32_t file_ = 0;
  std::unique_ptr<RowSplitter> splitter_;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<std::shared_ptr<BlockSlot>> slots_;  // read and not yet taken, in source order
  std::vector<std::unique_ptr<EncodedBlock>> spare_;
  size_t bytes_held_ = 0;  // of blocks not yet released: content and tokens
  size_t blocks_held_ = 0;
  bool all_read_ = false;
  std::exception_ptr failure_;  // of a worker, outside any row
  std::atomic<bool> stop_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace xrun
