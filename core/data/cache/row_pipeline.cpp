// Blocks keep the order in which they are read: a worker appends the slot of its block to the queue
// before the next worker may read. The oldest slot is always ready or being encoded, so taking it
// never waits for memory.

#include "core/data/cache/row_pipeline.h"

#include <algorithm>
#include <chrono>

#include "core/base/error.h"
#include "core/data/rows/row_length.h"

namespace xrun {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr size_t kHeldBytes = 3;  // in blocks' bytes: a block's content and its tokens
constexpr size_t kSpareBlocks = 4;
constexpr size_t kHugeBytes = 4;    // in blocks' bytes: no other block is read beside a larger one
constexpr size_t kSpareBytes = 16;  // in blocks' bytes: a larger block is freed, not reused

// Counts capacity rather than size: reused buffers stay as large as they have grown.
size_t token_bytes(const RowOutcome& outcome) {
  size_t bytes = 0;
  for (const StoredStream& stream : outcome.row.streams) {
    bytes += stream.ids.capacity() + stream.bits.capacity() * sizeof(uint64_t) +
             stream.weights.capacity() * sizeof(float);
  }
  return bytes;
}

}  // namespace

RowPipeline::RowPipeline(const std::vector<DataFile>& files, const RowSchema& schema,
                         const RowEncoderMaker& make_encoder, const PipelineOptions& options,
                         int32_t first, std::unique_ptr<RowSplitter> splitter)
    : files_(files),
      options_(options),
      ids_(id_type(schema)),
      file_(first),
      splitter_(std::move(splitter)) {
  int& workers = options_.workers;
  if (workers <= 0) workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // One encoder per thread: it has buffers and, for a Lua template, a Lua state.
  for (int i = 0; i < workers; ++i) encoders_.push_back(make_encoder());
  try {
    for (const auto& encoder : encoders_) {
      threads_.emplace_back([this, &encoder] { work(*encoder); });
    }
  } catch (...) {  // the system refuses another thread
    end_threads();
    throw;
  }
}

RowPipeline::~RowPipeline() { end_threads(); }

// Workers check stop_ before each row, so this waits for at most one row of each.
void RowPipeline::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::unique_ptr<EncodedBlock> RowPipeline::next(const std::function<void()>& waiting) {
  std::unique_lock lock(mutex_);
  const auto ready = [&] {
    return failure_ || (slots_.empty() ? all_read_ : slots_.front()->ready);
  };
  // Polls, because only the caller's thread answers Ctrl-C.
  while (!changed_.wait_for(lock, kPoll, ready)) {
    // `waiting` may throw; no lock may be held across it.
    lock.unlock();
    waiting();
    lock.lock();
  }
  if (failure_) std::rethrow_exception(failure_);
  if (slots_.empty()) return nullptr;
  std::unique_ptr<EncodedBlock> block = std::move(slots_.front()->block);
  slots_.pop_front();
  return block;
}

void RowPipeline::release(std::unique_ptr<EncodedBlock> block) {
  const size_t held = block->held;
  // Freed before another block is read.
  if (std::max(held, block->raw.content.capacity()) > kSpareBytes * options_.block_bytes) {
    block.reset();
  }
  {
    const std::lock_guard lock(mutex_);
    bytes_held_ -= held;
    --blocks_held_;
    // Kept for reuse: its buffers have grown to the size that rows need.
    if (block && spare_.size() < kSpareBlocks) spare_.push_back(std::move(block));
  }
  changed_.notify_all();
}

// An error of a row belongs to its block. Any other failure, such as a lack of memory, stops all
// workers.
void RowPipeline::work(RowEncoder& encoder) {
  try {
    while (const std::shared_ptr<BlockSlot> slot = read_slot()) {
      encode_block(encoder, *slot->block);
      {
        const std::lock_guard lock(mutex_);
        slot->ready = true;
        weigh(*slot->block);
      }
      changed_.notify_all();
    }
  } catch (...) {
    // next() throws it again.
    {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      // Other workers see it at their next row or in wait_for_room.
      stop_ = true;
    }
    changed_.notify_all();
  }
}

void RowPipeline::weigh(EncodedBlock& block) {
  size_t tokens = 0;
  for (size_t row = 0; row < block.encoded; ++row) tokens += token_bytes(block.outcomes[row]);
  block.held += tokens;
  bytes_held_ += tokens;
}

size_t RowPipeline::room() const {
  // One block per worker, one being read and one with the caller.
  return (static_cast<size_t>(options_.workers) + 2) * kHeldBytes * options_.block_bytes;
}

bool RowPipeline::wait_for_room() {
  std::unique_lock lock(mutex_);
  const size_t blocks = 4 * (static_cast<size_t>(options_.workers) + 2);
  // Two limits: bytes for large rows, blocks for many small ones that the caller has not taken.
  changed_.wait(lock, [&] { return stop_ || (bytes_held_ < room() && blocks_held_ < blocks); });
  return !stop_ && !all_read_;
}

// Reuses a spare block if there is one, which saves allocating and faulting in megabytes.
std::unique_ptr<EncodedBlock> RowPipeline::empty_block() {
  std::unique_ptr<EncodedBlock> block;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      block = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (!block) block = std::make_unique<EncodedBlock>();
  block->raw.rows.clear();
  block->encoded = 0;
  block->error = nullptr;
  block->ends_file = false;
  return block;
}

// Returns nullptr at the end of the source.
std::shared_ptr<RowPipeline::BlockSlot> RowPipeline::read_slot() {
  // One reader at a time fixes the order; encoding runs in parallel.
  const std::lock_guard reading(reading_);
  if (!wait_for_room()) return nullptr;
  auto slot = std::make_shared<BlockSlot>();
  slot->block = empty_block();
  bool more = false;
  try {
    more = read_block(*slot->block);
  } catch (...) {
    // Takes its place in the queue, so that the rows before it are delivered first.
    slot->block->error = std::current_exception();
    slot->block->raw.rows.clear();
    slot->block->raw.after = slot->block->raw.from;
  }
  const std::lock_guard lock(mutex_);
  if (!more) {
    all_read_ = true;
    changed_.notify_all();
    if (!slot->block->error) return nullptr;
  }
  // No block is read beside that of a huge row, however many workers there are: encoding takes many
  // times its size.
  const size_t bytes = slot->block->raw.bytes();
  slot->block->held = bytes > kHugeBytes * options_.block_bytes ? std::max(bytes, room()) : bytes;
  bytes_held_ += slot->block->held;
  ++blocks_held_;
  slots_.push_back(slot);
  return slot;
}

bool RowPipeline::read_block(EncodedBlock& block) {
  if (file_ == static_cast<int32_t>(files_.size())) return false;
  const std::string& name = files_[static_cast<size_t>(file_)].name;
  block.file = file_;
  block.raw.from = block.raw.after = {};
  if (!splitter_) splitter_ = RowSplitter::open(name, name);
  block.form = splitter_->form();
  const bool more = splitter_->next(block.raw, options_.block_bytes);
  block.raw_bytes = splitter_->file().bytes();
  if (more) return true;
  block.raw.after = block.raw.from;
  // The file ends with an empty block, so that the digest is compared after the last row.
  block.ends_file = true;
  block.file_digest = splitter_->file().digest();
  splitter_.reset();
  ++file_;
  return true;
}

// A block is encoded by one worker, so outcomes need no lock.
void RowPipeline::encode_block(RowEncoder& encoder, EncodedBlock& block) const {
  if (block.error) return;
  // Never shrinks, so that outcomes keep their buffers from block to block.
  if (block.outcomes.size() < block.raw.rows.size()) block.outcomes.resize(block.raw.rows.size());
  try {
    for (size_t row = 0; row < block.raw.rows.size() && !stop_; ++row) {
      encode_row(encoder, block, row);
      ++block.encoded;
    }
  } catch (const TooLongError& error) {
    block.error = std::make_exception_ptr(count_long_rows(encoder, block, error));
  } catch (...) {
    block.error = std::current_exception();
  }
}

// Encodes the other rows of the block, so that the user learns at the cost of one block whether
// long rows are few or many.
TooLongError RowPipeline::count_long_rows(RowEncoder& encoder, EncodedBlock& block,
                                          const TooLongError& first) const {
  int64_t rows = 1;
  size_t row = block.encoded;
  while (++row < block.raw.rows.size() && !stop_) {
    try {
      encode_row(encoder, block, row);
    } catch (const TooLongError&) {
      ++rows;
    } catch (const Error&) {
      break;  // another fault, which is reported once this one is fixed
    }
  }
  if (row == block.encoded + 1) return first;  // no further row was seen
  return first.counted(rows, block.raw.rows[row - 1].line);
}

void RowPipeline::encode_row(RowEncoder& encoder, EncodedBlock& block, size_t row) const {
  RawRow raw;
  raw.text = block.raw.text(row);
  raw.form = block.form;
  raw.at = {block.file, block.raw.rows[row].line};
  raw.column = block.raw.rows[row].column;
  const std::string location =
      fmt::format("{}:{}", files_[static_cast<size_t>(block.file)].name, raw.at.line);
  RowOutcome& outcome = block.outcomes[row];
  outcome.reason.clear();
  outcome.detail.clear();
  outcome.tokens_above = 0;
  EncodedRow encoded;
  try {
    encoder.encode(raw, location, encoded);
    store_row(std::move(encoded), ids_, outcome.row);
  } catch (const RowRefusal& refusal) {
    // The ledger counts a refused row as repaired too.
    outcome.row.repairs = encoded.repairs;
    outcome.reason = refusal.reason();
    outcome.detail = refusal.what();
    const auto* above = dynamic_cast<const AboveMaxLength*>(&refusal);
    if (above != nullptr) outcome.tokens_above = above->tokens();
  }
}

}  // namespace xrun
