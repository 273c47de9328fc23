// .txt: a row is what stands between blank lines. Its text ends before its last line end.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

namespace {

class ParagraphSplitter : public RowSplitter {
 public:
  RowForm form() const override { return RowForm::kText; }

 protected:
  void split(std::string_view content, bool at_end, std::vector<RowBlock::Row>& rows) override {
    const bool marked = cursor_.offset == 0 && content.starts_with(kByteOrderMark);
    size_t begin = marked ? kByteOrderMark.size() : 0;  // of the row
    size_t end = begin;                                 // of its last line; begin: it has none yet
    size_t behind = 0;                                  // that line's end
    size_t done = 0;
    for (size_t at = begin; at < content.size();) {
      size_t line_end = content.find('\n', at);
      if (line_end == std::string_view::npos && !at_end) return;
      const size_t next = line_end == std::string_view::npos ? content.size() : line_end + 1;
      line_end = std::min(line_end, content.size());
      if (is_blank_line(content.substr(at, line_end - at))) {
        if (end > begin) done = add_row(content, done, begin, end, behind, rows);
        done = skip(content, done, next);
        begin = end = next;
      } else {
        end = line_end > at && content[line_end - 1] == '\r' ? line_end - 1 : line_end;
        behind = next;
      }
      at = next;
    }
    if (!at_end) return;
    if (end > begin) done = add_row(content, done, begin, end, behind, rows);
    skip(content, done, content.size());
  }
};

}  // namespace

std::unique_ptr<RowSplitter> make_paragraph_splitter() {
  return std::make_unique<ParagraphSplitter>();
}

}  // namespace xrun
