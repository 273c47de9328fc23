#pragma once
// TensorBoard event files, written by hand.
// Format: tensorflow/core/lib/io/record_writer.h (records), tensorflow/core/util/event.proto.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/file.h"

namespace xrun {

// CRC-32C (Castagnoli) of `data`, continuing from `crc`; 0 starts. By SSE4.2 where the processor
// has it.
uint32_t crc32c(std::string_view data, uint32_t crc = 0);

// Returns one record: length, masked CRC of the length, data, masked CRC of the data.
std::string tensorboard_record(std::string_view data);

// Returns a serialised Event of scalars (simple_value, so float precision).
std::string scalar_event(double wall_time, int64_t step,
                         std::span<const std::pair<std::string, double>> scalars);

// Appends events to a new file in a folder. Not thread-safe.
class TensorBoardWriter {
 public:
  // Cuts the folder's earlier files at first_step, then starts a new file that sorts after them.
  // With first_step > 0 it opens with a START mark, at which TensorBoard forgets later steps that
  // it has read. Throws Error if the folder cannot be written.
  TensorBoardWriter(const std::filesystem::path& dir, int64_t first_step);

  // Writes and flushes one event; NaN and infinities are left out. A failure leaves a torn record,
  // so nothing more is written after it; the next start cuts it off.
  void write(int64_t step, std::span<const std::pair<std::string, double>> scalars);
  // Makes TensorBoard forget the steps from `step` on, in the same file.
  void forget(int64_t step);
  void sync();

 private:
  void write_record(const std::string& event);

  std::unique_ptr<FileWriter> file_;  // null after a failed write
};

// Cuts one event file before its first record that is torn, damaged, or of a step >= `step`.
void cut_events(const std::filesystem::path& path, int64_t step);

}  // namespace xrun
