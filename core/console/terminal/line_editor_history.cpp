// Walking and searching the history. Up shows only inputs that begin as the one begun does.

#include "core/base/utf8.h"
#include "core/console/terminal/line_editor.h"

namespace xrun {

void LineEditor::show_input(size_t index) {
  index_ = index;
  buffer_.set(index == history_.inputs().size() ? left_ : history_.inputs()[index]);
}

void LineEditor::go_older(bool by_line) {
  if (by_line && buffer_.up()) return;
  if (index_ == history_.inputs().size()) {
    left_ = buffer_.text();
    const bool at_end = buffer_.cursor() == buffer_.text().size();
    beginning_ = at_end && left_.find('\n') == std::string::npos ? left_ : "";
  }
  if (const auto found = history_.find_older(index_, beginning_, true)) show_input(*found);
}

void LineEditor::go_newer(bool by_line) {
  if (by_line && buffer_.down()) return;
  if (index_ >= history_.inputs().size()) return;
  const auto found = history_.find_newer(index_, beginning_, true);
  show_input(found.value_or(history_.inputs().size()));
}

void LineEditor::begin_search(Search direction) {
  search_ = direction;
  query_.clear();
  found_ = true;
  before_search_ = buffer_.text();
  cursor_before_search_ = buffer_.cursor();
}

void LineEditor::end_search(bool keep) {
  search_ = Search::kNone;
  if (!keep) {
    buffer_.set(before_search_, cursor_before_search_);
    index_ = history_.inputs().size();
  }
}

void LineEditor::search_from(size_t index) {
  const auto found = search_ == Search::kOlder ? history_.find_older(index, query_, false)
                                               : history_.find_newer(index, query_, false);
  found_ = found.has_value();
  if (!found) return;
  show_input(*found);
  const size_t at = buffer_.text().find(query_);
  buffer_.set(buffer_.text(), at);
}

bool LineEditor::press_in_search(const Key& key) {
  const size_t newest = history_.inputs().size();
  switch (key.kind) {
    case Key::Kind::kText:
      query_ += key.text;
      // The input that is shown may hold the longer text as well.
      search_from(search_ == Search::kOlder ? std::min(index_ + 1, newest)
                                            : index_ - (index_ > 0 ? 1 : 0));
      return true;
    case Key::Kind::kBackspace:
      while (!query_.empty() && is_continuation(query_.back())) query_.pop_back();
      if (!query_.empty()) query_.pop_back();
      search_from(search_ == Search::kOlder ? newest : 0);
      return true;
    case Key::Kind::kControl:
      if (key.text == "r" || key.text == "s") {
        search_ = key.text == "r" ? Search::kOlder : Search::kNewer;
        search_from(index_);
        return true;
      }
      end_search(key.text != "g" && key.text != "c");
      return key.text == "g" || key.text == "c";
    case Key::Kind::kEscape: end_search(true); return true;
    default: end_search(true); return false;
  }
}

}  // namespace xrun
