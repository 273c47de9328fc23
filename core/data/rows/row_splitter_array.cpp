// .json: one array of rows. Where an element ends is found by its brackets and strings alone, so
// that a bad element is one bad row and no file is parsed whole.

#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/data/rows/row_splitter.h"

namespace xrun {

namespace {

constexpr size_t kUnknown = std::string_view::npos;
constexpr std::string_view kSpace = " \t\r\n";

// Returns the place behind the string that begins at text[at], or kUnknown.
size_t string_end(std::string_view text, size_t at) {
  for (size_t quote = text.find('"', at + 1); quote != kUnknown;
       quote = text.find('"', quote + 1)) {
    size_t escapes = quote;
    while (text[escapes - 1] == '\\') --escapes;
    if ((quote - escapes) % 2 == 0) return quote + 1;
  }
  return kUnknown;
}

// Returns the place behind the object or list that begins at text[at], or kUnknown.
size_t nested_end(std::string_view text, size_t at) {
  for (int64_t depth = 0; at < text.size();) {
    switch (text[at]) {
      case '"':
        at = string_end(text, at);
        if (at == kUnknown) return kUnknown;
        continue;
      case '{':
      case '[': ++depth; break;
      case '}':
      case ']':
        if (--depth == 0) return at + 1;
        break;
      default: break;
    }
    ++at;
  }
  return kUnknown;
}

size_t value_end(std::string_view text, size_t at) {
  if (text[at] == '"') return string_end(text, at);
  if (text[at] == '{' || text[at] == '[') return nested_end(text, at);
  return text.find_first_of(",]} \t\r\n", at);
}

class ArraySplitter : public RowSplitter {
 protected:
  void split(std::string_view content, bool at_end, std::vector<RowBlock::Row>& rows) override {
    size_t done = 0;
    if (cursor_.offset == 0) {
      done = content.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
    }
    // What stands before it is already passed, but for commas and brackets.
    bool opened = cursor_.rows > 0;
    bool behind_element = opened;
    done = skip(content, 0, done);
    while (!ended_) {
      size_t at = content.find_first_not_of(kSpace, done);
      if (at == kUnknown) break;
      if (!opened) {
        if (content[at] != '[') refuse_beginning(content, at);
        opened = true;
        at = content.find_first_not_of(kSpace, at + 1);
        if (at == kUnknown) break;
      }
      if (content[at] == ']') {
        ended_ = true;
        done = skip(content, done, at + 1);
        break;
      }
      if (behind_element) {
        if (content[at] != ',') refuse(content, done, at, "wanted a comma or ] behind an element");
        at = content.find_first_not_of(kSpace, at + 1);
        if (at == kUnknown) break;
      }
      if (std::strchr(",]}", content[at]) != nullptr) refuse(content, done, at, "wanted a value");
      const size_t end = value_end(content, at);
      if (end == kUnknown) break;
      done = add_row(content, done, at, end, end, rows);
      behind_element = true;
    }
    if (ended_) {
      const size_t more = content.find_first_not_of(kSpace, done);
      if (more != kUnknown) refuse(content, done, more, "something stands behind the array");
      skip(content, done, content.size());
    } else if (at_end) {
      refuse(content, done, content.size(), "the file ends inside the array");
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view content, size_t done, size_t at, const char* what) {
    skip(content, done, at);
    throw Error(
        fmt::format("{}:{}:{}: is not valid JSON: {}; the elements behind this place "
                    "cannot be told apart",
                    name(), cursor_.lines + 1, cursor_.column + 1, what));
  }

  // The two usual other things that are called .json.
  [[noreturn]] void refuse_beginning(std::string_view content, size_t at) {
    const size_t end = content[at] == '{' ? nested_end(content, at) : kUnknown;
    const size_t next = end == kUnknown ? end : content.find_first_not_of(kSpace, end);
    if (next != kUnknown && content[next] == '{') {
      throw Error(
          fmt::format("{}: holds one object after another, wanted an array of rows; these "
                      "are JSON Lines: give the file a name that ends with .jsonl",
                      name()));
    }
    if (content[at] == '{') {
      throw Error(fmt::format(
          "{}: is one object, wanted an array of rows; if the rows are a member of it, take them "
          "out, say with\n  python3 -c \"import json, sys; "
          "json.dump(json.load(open(sys.argv[1]))['rows'], open(sys.argv[2], 'x'))\" IN.json "
          "OUT.json",
          name()));
    }
    refuse(content, 0, at, "wanted [, an array of rows");
  }

  bool ended_ = false;
};

}  // namespace

std::unique_ptr<RowSplitter> make_array_splitter() { return std::make_unique<ArraySplitter>(); }

}  // namespace xrun
