#pragma once
// The rows of a source, encoded by several threads and taken by one, in source order.

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
#include "core/data/cache/packed_row.h"
#include "core/data/rows/row_splitter.h"
#include "core/data/rows/row_type.h"

namespace xrun {

// One row as a worker left it.
struct RowOutcome {
  PackedRow row;               // repairs count even if it is refused
  std::string reason, detail;  // of its refusal; reason "": it is kept
};

// A block of rows as a worker left it.
struct EncodedBlock {
  int32_t file = 0;
  RowForm form = RowForm::kJson;
  RowBlock raw;
  std::vector<RowOutcome> outcomes;  // of the first rows of raw, up to `encoded`
  size_t encoded = 0;
  size_t held = 0;           // bytes of content and of what was made of it
  std::exception_ptr error;  // behind the encoded rows; ends the build
  uint64_t raw_bytes = 0;    // of the file, read for the rows up to here
  bool ends_file = false;    // there are no rows in it, the file is read whole
  std::string file_digest;   // of such a file's bytes
};

struct PipelineOptions {
  int workers = 0;                       // threads; 0: one a core
  size_t block_bytes = size_t{1} << 20;  // of content; a block ends with a row
};

// A block is read by the worker that will encode it, while no other worker reads; there is no lock
// a row. Memory is bounded: new blocks are read only while those that are not yet released, with
// what was made of their rows, hold less than three times workers + 2 blocks' bytes. So a block of
// a huge row is the last one that is read until it is released; it comes on top.
class RowPipeline {
 public:
  // Starts to read `files` at file `first`, with `splitter` if it is given. What is passed by
  // reference must outlive this. Throws what RowType::make_worker throws.
  RowPipeline(const std::vector<DataFile>& files, const RowType& row_type,
              const PipelineOptions& options, int32_t first, std::unique_ptr<RowSplitter> splitter);
  // Lets the workers end with the rows that they are at.
  ~RowPipeline();

  // The next block, in source order; nullptr behind the last. While it waits it calls `waiting`
  // every 50 ms, which may throw.
  std::unique_ptr<EncodedBlock> next(const std::function<void()>& waiting);
  // Gives a block back, whose memory is used again.
  void release(std::unique_ptr<EncodedBlock> block);

 private:
  struct Slot {
    std::unique_ptr<EncodedBlock> block;
    bool ready = false;
  };
  void work(RowWorker& worker);
  void end_threads();
  std::shared_ptr<Slot> read_slot();
  size_t room() const;  // bytes that may be held when a block is read
  bool wait_for_room();
  void weigh(EncodedBlock& block);  // adds what was made of its rows
  std::unique_ptr<EncodedBlock> empty_block();
  bool read_block(EncodedBlock& block);
  void encode_block(RowWorker& worker, EncodedBlock& block) const;
  void encode_row(RowWorker& worker, EncodedBlock& block, size_t row) const;

  const std::vector<DataFile>& files_;
  PipelineOptions options_;
  ColumnType ids_;
  std::vector<std::unique_ptr<RowWorker>> workers_;

  std::mutex reading_;  // of the one that reads; guards what follows
  int32_t file_ = 0;
  std::unique_ptr<RowSplitter> splitter_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> slots_;  // read and not yet taken, in source order
  std::vector<std::unique_ptr<EncodedBlock>> spare_;
  size_t bytes_held_ = 0;  // of blocks that are read and not yet released: content and tokens
  size_t blocks_held_ = 0;
  bool all_read_ = false;
  std::exception_ptr failure_;  // of a worker, outside any row
  std::atomic<bool> stop_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace xrun
