// [[fill]align][sign][#][0][width][grouping][.precision][type]

#include "core/text/jinja/jinja_format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "core/base/json.h"
#include "core/base/utf8.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

constexpr int kMaxWidth = 10'000;

struct Specification {
  std::string fill;
  char align = 0;  // 0: as the kind of value has it
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  int width = 0;
  char grouping = 0;
  int precision = -1;
  char type = 0;
};

class SpecificationReader {
 public:
  explicit SpecificationReader(std::string_view text) : text_(text) {}

  Specification run() {
    Specification out;
    fill_and_align(out);
    if (one_of("+- ")) out.sign = text_[at_++];
    if (one_of("#")) out.alternate = ++at_ > 0;
    if (out.fill.empty() && one_of("0")) {
      out.zero = ++at_ > 0;
      out.fill = "0";
    }
    if (out.fill.empty()) out.fill = " ";
    if (one_of("0123456789")) out.width = number();
    if (one_of(",_")) out.grouping = text_[at_++];
    if (one_of(".")) {
      ++at_;
      XRUN_JINJA_CHECK(one_of("0123456789"), "Format specifier missing precision");
      out.precision = number();
    }
    if (at_ + 1 == text_.size()) out.type = text_[at_++];
    XRUN_JINJA_CHECK(at_ == text_.size(), "Invalid format specifier '{}'", text_);
    return out;
  }

 private:
  static bool aligns(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

  bool one_of(std::string_view chars) const {
    return at_ < text_.size() && chars.find(text_[at_]) != std::string_view::npos;
  }

  void fill_and_align(Specification& out) {
    if (text_.empty()) return;
    const size_t first = read_utf8(text_, 0).size;
    if (first < text_.size() && aligns(text_[first])) {
      out.fill = text_.substr(0, first);
      out.align = text_[first];
      at_ = first + 1;
    } else if (aligns(text_[0])) {
      out.align = text_[at_++];
    }
  }

  int number() {
    int value = 0;
    for (; one_of("0123456789"); ++at_) value = std::min(value * 10 + text_[at_] - '0', 99999);
    XRUN_JINJA_CHECK(value <= kMaxWidth, "width or precision beyond {}", kMaxWidth);
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
};

[[noreturn]] void refuse_type(const Specification& spec, const Value& value) {
  throw Fault(
      fmt::format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
}

void group_digits(std::string& digits, char mark, size_t each) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (size_t at = whole; at > each;) digits.insert(at -= each, 1, mark);
}

// What is written of a number without its sign: what stands in front of all zeros, and the digits.
struct Digits {
  std::string prefix;
  std::string digits;
};

Digits integer_digits(const Specification& spec, uint64_t size) {
  XRUN_JINJA_CHECK(spec.precision < 0, "Precision not allowed in integer format specifier");
  const bool decimal = spec.type == 0 || spec.type == 'd';
  XRUN_JINJA_CHECK(decimal || spec.grouping != ',', "Cannot specify ',' with '{}'.", spec.type);
  Digits out;
  switch (spec.type) {
    case 'x': out = {"0x", fmt::format("{:x}", size)}; break;
    case 'X': out = {"0X", fmt::format("{:X}", size)}; break;
    case 'o': out = {"0o", fmt::format("{:o}", size)}; break;
    case 'b': out = {"0b", fmt::format("{:b}", size)}; break;
    default: out.digits = std::to_string(size);
  }
  if (!spec.alternate) out.prefix.clear();
  if (spec.grouping != 0) group_digits(out.digits, spec.grouping, decimal ? 3 : 4);
  return out;
}

Digits real_digits(const Specification& spec, double number) {
  const bool percent = spec.type == '%';
  XRUN_JINJA_CHECK(spec.type != 0 || spec.precision < 0,
                   "a precision wants a type: '{{:.{}g}}' or '{{:.{}f}}'", spec.precision,
                   spec.precision);
  Digits out;
  if (spec.type == 0) {
    out.digits = shortest_double(number);
  } else {
    const std::string format =
        std::string("%") + (spec.alternate ? "#" : "") + ".*" + (percent ? 'f' : spec.type);
    std::string digits(400 + kMaxWidth, '\0');
    const int size =
        std::snprintf(digits.data(), digits.size(), format.c_str(),
                      spec.precision < 0 ? 6 : spec.precision, percent ? number * 100 : number);
    digits.resize(static_cast<size_t>(std::max(size, 0)));
    out.digits = digits + (percent ? "%" : "");
  }
  if (spec.grouping != 0) group_digits(out.digits, spec.grouping, 3);
  return out;
}

TextPtr padded(const Specification& spec, const TextPtr& text, char align) {
  const TextPtr fill = make_text(spec.fill);
  if (align == '<') return pad_text(text, spec.width, *fill, Side::kRight);
  if (align != '^') return pad_text(text, spec.width, *fill, Side::kLeft);
  // Unlike str.center, the odd one goes to the right.
  const int64_t length = text_length(*text);
  const int64_t left = std::max<int64_t>(spec.width - length, 0) / 2;
  return pad_text(pad_text(text, length + left, *fill, Side::kLeft), spec.width, *fill,
                  Side::kRight);
}

TextPtr format_number(const Specification& spec, const Value& value) {
  if (spec.type == 'c' || spec.type == 'n' || spec.type == 's') refuse_type(spec, value);
  const bool real = std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool whole = value.is_integral();
  const bool known = spec.type == 0 || real ||
                     (whole && std::string_view("dxXob").find(spec.type) != std::string_view::npos);
  if (!known) refuse_type(spec, value);
  Digits digits;
  bool negative;
  if (whole && (spec.type == 0 || !real)) {
    const int64_t number = value.as_int();
    negative = number < 0;
    digits = integer_digits(
        spec, negative ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number));
  } else {
    negative = std::signbit(value.as_double());
    digits = real_digits(spec, std::abs(value.as_double()));
  }
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const char align = spec.align != 0 ? spec.align : spec.zero ? '=' : '>';
  if (align != '=') return padded(spec, make_text(sign + digits.prefix + digits.digits), align);
  XRUN_JINJA_CHECK(spec.grouping == 0 || spec.fill != "0",
                   "zeros in front of grouped digits are not supported in templates");
  Specification rest = spec;
  rest.width -= static_cast<int>(sign.size() + digits.prefix.size());
  return join_texts(*make_text(sign + digits.prefix), *padded(rest, make_text(digits.digits), '>'));
}

TextPtr format_text(const Specification& spec, TextPtr text) {
  XRUN_JINJA_CHECK(spec.align != '=' && spec.sign == '-' && !spec.alternate && spec.grouping == 0,
                   "sign, '#', '=' and grouping are not allowed in a string's format specifier");
  if (spec.precision >= 0 && text_length(*text) > spec.precision) {
    text = slice_text(text, 0, byte_of_point(*text, spec.precision));
  }
  return padded(spec, text, spec.align == 0 ? '<' : spec.align);
}

}  // namespace

TextPtr format_value(const Value& value, std::string_view specification, Budget& budget) {
  const Specification spec = SpecificationReader(specification).run();
  budget.charge(spec.width + std::max<int64_t>(spec.precision, 0) + 1);
  if (value.is_text()) {
    if (spec.type != 0 && spec.type != 's') refuse_type(spec, value);
    return format_text(spec, value.as_text());
  }
  XRUN_JINJA_CHECK(value.is_number(), "unsupported format string passed to {}.__format__",
                   type_name(value));
  return format_number(spec, value);
}

}  // namespace xrun::jinja
