// Output goes through write(2): a closed pipe ends the command quietly, other failures are errors.

#include "tools/commands/row_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/rows/byte_stream.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

namespace {

constexpr size_t kFlushBytes = 1 << 16;

bool is_standard_input(const std::string& path) { return path.empty() || path == "-"; }

}  // namespace

RowReader::RowReader(const std::string& path, TextRows rows)
    : name_(is_standard_input(path) ? "<stdin>" : path) {
  if (rows == TextRows::kDocuments && content_name(path).ends_with(".txt")) {
    documents_ = RowSplitter::open(path, path);
    block_ = std::make_unique<RowBlock>();
    return;
  }
  file_ = is_standard_input(path) ? stdin : std::fopen(path.c_str(), "rbe");
  // Read before the calls below can change it.
  const int code = errno;
  XRUN_CHECK(file_ != nullptr, "{}: cannot be opened: {}{}", name_, std::strerror(code),
             code == ENOENT
                 ? fmt::format("; to pass the text itself, pipe it in: echo {} | xrun ...",
                               shell_word(path))
                 : "");
}

RowReader::~RowReader() {
  std::free(buffer_);
  if (file_ != nullptr && file_ != stdin) std::fclose(file_);
}

bool RowReader::next_document(std::string& text) {
  // A block of blank lines holds no row.
  while (row_ == block_->rows.size()) {
    if (!documents_->next(*block_)) return false;
    row_ = 0;
  }
  line_ = block_->rows[row_].line;
  text = block_->text(row_++);
  return true;
}

bool RowReader::next(std::string& line) {
  if (documents_ != nullptr) return next_document(line);
  const ssize_t size = getline(&buffer_, &capacity_, file_);
  if (size < 0) {
    XRUN_CHECK(std::ferror(file_) == 0, "{}: cannot be read: {}", name_, std::strerror(errno));
    return false;
  }
  ++line_;
  line.assign(buffer_, size_t(size));
  // A carriage return belongs to the text.
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return true;
}

std::string RowReader::location() const { return fmt::format("{}:{}", name_, line_); }

void note_json_row(const std::string& line, const RowReader& rows, std::string_view fate) {
  if (rows.line() != 1 || !trimmed(line).starts_with('{')) return;
  try {
    const Json row = parse_json(line, "", 1);
    const auto names = {"text", "prompt", "messages", "ids", "student_ids"};
    const bool known = row.is_object() && std::any_of(names.begin(), names.end(), [&](auto name) {
                         return row.find(name) != nullptr;
                       });
    if (!known) return;
  } catch (const Error&) {
    return;  // a text that begins with a brace
  }
  fmt::print(stderr, "xrun: note: {}: this row looks like JSON but {}; --json reads it\n",
             shown_text(rows.location()), fate);
}

void RowNotes::print(const RowReader& rows, const std::string& note) {
  if (!printed_.insert(note).second) return;
  fmt::print(stderr, "{}\n", shown_text(fmt::format("note: {}: {}", rows.location(), note)));
}

std::string error_row(const std::string& message) {
  return dump_json(Json(Json::Object{{"error", message}}));
}

void RowWriter::write(std::string_view line) {
  buffer_.append(line);
  buffer_.push_back('\n');
  if (buffer_.size() >= kFlushBytes) finish();
}

void RowWriter::finish() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) std::_Exit(1);
    XRUN_CHECK(written >= 0, "standard output cannot be written: {}", std::strerror(errno));
    rest.remove_prefix(size_t(written));
  }
  buffer_.clear();
}

}  // namespace xrun
