// .jsonl: lines end with LF or CRLF, the last one also with the file.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

namespace {

class LineSplitter : public RowSplitter {
 protected:
  void split(std::string_view content, bool at_end, std::vector<RowBlock::Row>& rows) override {
    const bool marked = cursor_.offset == 0 && content.starts_with(kByteOrderMark);
    size_t begin = marked ? kByteOrderMark.size() : 0;
    for (size_t at = 0; at < content.size(); begin = at) {
      size_t end = content.find('\n', at);
      if (end == std::string_view::npos && !at_end) return;
      const size_t behind = std::min(content.size(), end == std::string_view::npos ? end : end + 1);
      end = std::min(end, content.size());
      if (end > begin && content[end - 1] == '\r') --end;
      if (is_blank_line(content.substr(begin, end - begin))) {
        at = skip(content, at, behind);
      } else {
        at = add_row(content, at, begin, end, behind, rows);
      }
    }
  }
};

}  // namespace

std::unique_ptr<RowSplitter> make_line_splitter() { return std::make_unique<LineSplitter>(); }

}  // namespace xrun
