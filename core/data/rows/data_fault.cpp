// The row is shown as its file spells it, in one line: the user looks for it there.

#include "core/data/rows/data_fault.h"

#include <algorithm>
#include <cerrno>

#include "core/base/utf8.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

namespace {

constexpr size_t kShownRowBytes = 160;
constexpr size_t kSearchedBytes = size_t{1} << 20;  // of a file, for one line of it

// Returns the beginning of a row in one line: each line end, with the indentation after it, becomes
// a space. A JSON string contains no line ends.
std::string one_line(std::string_view row) {
  std::string line;
  for (size_t at = 0; at < row.size() && line.size() < 2 * kShownRowBytes; ++at) {
    if (row[at] != '\n' && row[at] != '\r') {
      line += row[at];
      continue;
    }
    line += ' ';
    while (at + 1 < row.size() && std::string_view(" \t\r\n").find(row[at + 1]) != row.npos) ++at;
  }
  return line;
}

// Returns the only row of a .json file that begins on a line; "" if there are several.
std::string row_of_array(const std::string& path, int64_t line) {
  try {
    RowBlock block;
    RowSplitter::open(path, path, {}, RowSplitter::Prefix::kSkip)->next(block, kSearchedBytes);
    const auto is_there = [&](const RowBlock::RowExtent& row) { return row.line == line; };
    const auto row = std::find_if(block.rows.begin(), block.rows.end(), is_there);
    if (row == block.rows.end() || std::any_of(row + 1, block.rows.end(), is_there)) return "";
    return std::string(block.text(static_cast<size_t>(row - block.rows.begin())));
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

DataError data_error(std::string fault, std::string_view row,
                     const std::vector<PastedSetting>& settings) {
  std::string text = std::move(fault);
  if (!row.empty()) {
    // A row may be gigabytes long.
    std::string shown = repair_utf8(one_line(row));
    // A control character would act on the terminal.
    for (char& c : shown) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    text += "\n  row  " + shortened(shown, kShownRowBytes);
  }
  if (!settings.empty())
    text += settings.size() > 1 ? "\n  continue with one of" : "\n  continue with";
  size_t width = 0;
  for (const PastedSetting& pasted : settings) width = std::max(width, pasted.setting.size());
  for (const PastedSetting& pasted : settings) {
    text += fmt::format("\n    --set {:<{}}  {}", pasted.setting, width, pasted.effect);
  }
  return DataError(text);
}

// Errors of the system are worded by their cause, since the fix differs.
DataError unreadable_data(const FileError& error) {
  const char* fix = "check the path and the disk that holds it";
  if (error.code() == EACCES || error.code() == EPERM) {
    fix = "allow your user to read it (chmod u+r, and u+x on its folders)";
  } else if (error.code() == EIO) {
    fix = "the disk or network share fails: name a copy of the file on another disk";
  } else if (error.code() == EMFILE || error.code() == ENFILE) {
    fix = "too many files are open: raise the limit with ulimit -n";
  }
  return DataError(fmt::format("{}; {}", error.what(), fix), /*of_system=*/true);
}

// Never an error: the content only serves a hint.
std::string beginning_of_content(const std::string& path, size_t bytes) {
  try {
    std::string text(bytes, '\0');
    text.resize(open_byte_stream(path, path)->read(text.data(), text.size()));
    return text;
  } catch (const Error&) {
    return "";
  }
}

// Lines count from 1; "" if the line is beyond the bytes that are searched.
std::string row_of_file(const std::string& path, int64_t line) {
  if (content_name(path).ends_with(".json")) {
    if (std::string row = row_of_array(path, line); !row.empty()) return row;
  }
  const std::string text = beginning_of_content(path, kSearchedBytes);
  size_t begin = 0;
  for (int64_t at = 1; at < line; ++at) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace xrun
