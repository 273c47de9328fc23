#pragma once
// Errors about the data as the user sees them: file and line, the row, and settings that help.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"

namespace xrun {

// A fault of the data rather than of the recipe. The message begins with the data's file and line;
// reports name the recipe's line after it.
class DataError : public Error {
 public:
  explicit DataError(const std::string& message, bool of_system = false)
      : Error(message), of_system_(of_system) {}
  // Returns true if the system failed to read the data, which says nothing about their content.
  bool of_system() const { return of_system_; }

 private:
  bool of_system_;
};

// A setting to paste after the command, and its effect.
struct PastedSetting {
  std::string setting;  // "over_length=drop"
  std::string effect;
};

// Returns the error
//   pairs.jsonl:4: the chosen side has 5,310 tokens, max_length is 4,096
//     row  {"prompt": "How do I ...
//     continue with one of
//       --set over_length=drop  leaves such rows out, counted in the ledger
// A row of several lines is shown in one. The row is left out if `row` is "", and the heading of
// the settings if there are none.
DataError data_error(std::string fault, std::string_view row,
                     const std::vector<PastedSetting>& settings);

// Returns the row that begins on line `line` of a data file, for data_error: all of its lines in a
// .json file, the one line elsewhere. Returns "" if it is more than 1 MiB into the content or
// cannot be read, since it only adds to another message. Throws Interrupted.
std::string row_of_file(const std::string& path, int64_t line);

// Returns the DataError for data that the system failed to read, with a fix.
DataError unreadable_data(const FileError& error);

// Calls `read` and turns its Errors into DataErrors.
template <typename Read>
auto as_data_errors(const Read& read) {
  try {
    return read();
  } catch (const DataError&) {
    throw;
  } catch (const FileError& error) {
    throw unreadable_data(error);
  } catch (const Error& error) {
    throw DataError(error.what());
  }
}

// Returns the first `bytes` of a file's content, decompressed; "" if it cannot be read. Throws
// Interrupted.
std::string beginning_of_content(const std::string& path, size_t bytes = size_t{1} << 16);

}  // namespace xrun
