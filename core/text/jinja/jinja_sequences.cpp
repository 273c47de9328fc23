// Iteration and slices as in Python: a slice of a string counts code points, one of a range is a
// range.

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/jinja/jinja_operators.h"

namespace xrun::jinja {

// A copy of the items: the loop may change the value that it runs over.
std::vector<Value> iterate(const Value& value, Budget& budget) {
  std::vector<Value> out;
  if (value.is_list()) {
    List& list = value.list();
    budget.charge(static_cast<int64_t>(list.items.size() / 4));
    if (list.style != ListStyle::kGenerator) return list.items;
    // The items left in the generator, which is empty afterwards.
    out.assign(list.items.begin() + static_cast<ptrdiff_t>(list.taken), list.items.end());
    list.taken = list.items.size();
  } else if (value.is_dict()) {
    budget.charge(static_cast<int64_t>(value.dict().members.size() / 4));
    for (const DictItem& member : value.dict().members) out.push_back(member.first);
  } else if (value.is_text()) {
    const Text& text = value.text();
    budget.charge(static_cast<int64_t>(text.bytes.size()));
    XRUN_JINJA_CHECK(text_length(text) <= static_cast<int64_t>(kMaxListItems),
                     "a list grows beyond {} items", kMaxListItems);
    for (size_t at = 0; at < text.bytes.size();) {
      size_t end = at + 1;
      while (end < text.bytes.size() && is_continuation(text.bytes[end])) ++end;
      TextBuilder point;
      point.append(text, at, end);
      out.push_back(Value::text(point.take()));
      at = end;
    }
  } else if (value.is(ValueType::kLoop)) {
    Loop& loop = value.loop();
    // The items that are still to come.
    if (loop.index + 1 < loop.items.size()) {
      out.assign(loop.items.begin() + static_cast<ptrdiff_t>(loop.index) + 1, loop.items.end());
    }
  } else {
    XRUN_JINJA_CHECK(value.is_undefined(), "'{}' object is not iterable", type_name(value));
  }
  return out;
}

namespace {

// A slice resolved against a length.
struct Stride {
  int64_t first;
  int64_t end;
  int64_t step;
  int64_t count;
};

// Returns the bound clamped to [low, high]; `otherwise` if it is None.
int64_t bound(const Value& value, int64_t length, int64_t low, int64_t high, int64_t otherwise) {
  if (value.is_none()) return otherwise;
  XRUN_JINJA_CHECK(value.is_integral(), "slice indices must be integers or None");
  // Python's slice.indices: negative ones count from the end, all are clamped.
  int64_t index = value.as_int();
  if (index < 0) index = index < -length ? low : index + length;
  return std::clamp(index, low, high);
}

Stride resolve(const Value& start, const Value& stop, const Value& step, int64_t length) {
  XRUN_JINJA_CHECK(step.is_none() || step.is_integral(), "slice indices must be integers or None");
  // A step longer than any list takes one item; clamping it avoids overflow.
  const int64_t by =
      step.is_none() ? 1 : std::clamp(step.as_int(), -(int64_t{1} << 40), int64_t{1} << 40);
  XRUN_JINJA_CHECK(by != 0, "slice step cannot be zero");
  if (by > 0) {
    // The count is ceil((end - first) / by).
    const int64_t first = bound(start, length, 0, length, 0);
    const int64_t end = bound(stop, length, 0, length, length);
    return {first, end, by, end > first ? (end - first - 1) / by + 1 : 0};
  }
  // -1 is the position before the first item.
  const int64_t first = bound(start, length, -1, length - 1, length - 1);
  const int64_t end = bound(stop, length, -1, length - 1, -1);
  return {first, end, by, first > end ? (first - end - 1) / -by + 1 : 0};
}

Value slice_text_points(const Value& value, const Stride& stride, int64_t length, Budget& budget) {
  const Text& text = value.text();
  // One contiguous cut needs no table of code points.
  if (stride.step == 1 || stride.count == 0) {
    const size_t begin = byte_of_point(text, std::min(stride.first, length));
    const size_t end = byte_of_point(text, stride.first + stride.count);
    return Value::text(slice_text(value.as_text(), begin, stride.count == 0 ? begin : end),
                       value.markup());
  }
  budget.charge(stride.count);
  std::vector<uint32_t> starts;  // byte of each code point, and the end
  starts.reserve(static_cast<size_t>(length) + 1);
  for (size_t at = 0; at < text.bytes.size(); at += read_utf8(text.bytes, at).size) {
    // As text_length() counts them: an invalid byte is one too.
    starts.push_back(static_cast<uint32_t>(at));
  }
  starts.push_back(static_cast<uint32_t>(text.bytes.size()));
  TextBuilder out;
  for (int64_t i = 0; i < stride.count; ++i) {
    const size_t point = static_cast<size_t>(stride.first + i * stride.step);
    out.append(text, starts[point], starts[point + 1]);
  }
  return Value::text(out.take(), value.markup());
}

}  // namespace

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step,
            Budget& budget) {
  XRUN_JINJA_CHECK(!value.is_undefined(), "{}", value.undefined_message());
  const bool sliceable =
      value.is_text() || (value.is_list() && value.list().style <= ListStyle::kRange);
  XRUN_JINJA_CHECK(sliceable, "'{}' object is not subscriptable", type_name(value));
  const int64_t length = length_of(value);
  const Stride stride = resolve(start, stop, step, length);
  // Charged by the length of the object: code points must be counted.
  budget.charge(length / 16);
  if (value.is_text()) return slice_text_points(value, stride, length, budget);
  const List& list = value.list();
  std::vector<Value> items;
  for (int64_t i = 0; i < stride.count; ++i) {
    items.push_back(list.items[static_cast<size_t>(stride.first + i * stride.step)]);
  }
  if (list.style == ListStyle::kRange) {
    const RangeList& range = static_cast<const RangeList&>(list);
    return Value::range(std::move(items), range.start + range.step * stride.first,
                        range.start + range.step * stride.end, range.step * stride.step);
  }
  return Value::list(std::move(items), list.style, list.origin);
}

}  // namespace xrun::jinja
