// printf-style %: the parts of the format keep their marks, and so do the arguments.

#include <algorithm>
#include <cmath>

#include "core/text/jinja/jinja_interpreter.h"
#include "core/text/jinja/jinja_operators.h"
#include "core/text/jinja/jinja_print.h"
#include "core/text/jinja/jinja_strings.h"

namespace xrun::jinja {

namespace {

constexpr int kMaxWidth = 10'000;

// One %[flags][width][.precision]type.
struct Directive {
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  int width = 0;
  int precision = -1;
  char type = 0;
  const Value* value = nullptr;
};

class Percent {
 public:
  Percent(const Text& format, const Value& values, Budget& budget)
      : format_(format), values_(values), budget_(budget) {}

  Value run() {
    const std::string& bytes = format_.bytes;
    for (size_t percent; (percent = bytes.find('%', at_)) != std::string::npos;) {
      out_.append(format_, at_, percent);
      at_ = percent + 1;
      directive(mark_at(format_, percent));
    }
    out_.append(format_, at_, bytes.size());
    const bool tuple = is_tuple();
    const bool used = tuple ? next_ == values_.list().items.size()
                            : next_ > 0 || named_ || values_.is_dict() || values_.is_list() ||
                                  values_.is_undefined();
    XRUN_JINJA_CHECK(used, "not all arguments converted during string formatting");
    return Value::text(out_.take());
  }

 private:
  bool is_tuple() const { return values_.is_list() && values_.list().style == ListStyle::kTuple; }

  char peek() const {
    XRUN_JINJA_CHECK(at_ < format_.bytes.size(), "incomplete format");
    return format_.bytes[at_];
  }

  const Value& take() {
    if (is_tuple()) {
      XRUN_JINJA_CHECK(next_ < values_.list().items.size(),
                       "not enough arguments for format string");
      return values_.list().items[next_++];
    }
    XRUN_JINJA_CHECK(next_++ == 0, "not enough arguments for format string");
    return values_;
  }

  int number() {
    int value = 0;
    if (peek() == '*') {
      ++at_;
      const Value& given = take();
      XRUN_JINJA_CHECK(given.is_integral(), "* wants int");
      value = static_cast<int>(std::clamp<int64_t>(given.as_int(), -kMaxWidth - 1, kMaxWidth + 1));
    } else {
      for (; peek() >= '0' && peek() <= '9'; ++at_)
        value = std::min(value * 10 + peek() - '0', 99999);
    }
    XRUN_JINJA_CHECK(std::abs(value) <= kMaxWidth, "width or precision beyond {}", kMaxWidth);
    return value;
  }

  void directive(Mark mark) {
    Directive one;
    if (peek() == '(') {
      const size_t end = format_.bytes.find(')', at_);
      XRUN_JINJA_CHECK(end != std::string::npos, "incomplete format key");
      XRUN_JINJA_CHECK(values_.is_dict(), "format requires a mapping");
      const std::string key = format_.bytes.substr(at_ + 1, end - at_ - 1);
      one.value = values_.dict().find(key);
      XRUN_JINJA_CHECK(one.value != nullptr, "the format's key '{}' is not there", key);
      named_ = true;
      at_ = end + 1;
    }
    for (; std::string_view("-+ 0#").find(peek()) != std::string_view::npos; ++at_) {
      one.left |= peek() == '-';
      one.plus |= peek() == '+';
      one.space |= peek() == ' ';
      one.zero |= peek() == '0';
      one.alternate |= peek() == '#';
    }
    one.width = number();
    if (one.width < 0) one.left = true, one.width = -one.width;
    if (peek() == '.') {
      ++at_;
      one.precision = std::max(number(), 0);
    }
    while (std::string_view("hlL").find(peek()) != std::string_view::npos) ++at_;
    one.type = peek();
    ++at_;
    if (one.type == '%') return out_.append("%", mark);
    if (one.value == nullptr) one.value = &take();
    budget_.charge(one.width / 64 + 1);
    pad(one, converted(one));
  }

  void pad(const Directive& one, TextPtr text) {
    const bool number = one.type != 's' && one.type != 'r' && one.type != 'a' && one.type != 'c';
    const TextPtr blank = make_text(one.zero && number && !one.left ? "0" : " ");
    if (blank->bytes == "0" && !text->bytes.empty() &&
        std::string_view("+- ").find(text->bytes[0]) != std::string_view::npos) {
      out_.append(*text, 0, 1);  // the sign stands before the zeros
      text = pad_text(slice_text(text, 1, text->bytes.size()), one.width - 1, *blank, Side::kLeft);
    } else {
      text = pad_text(text, one.width, *blank, one.left ? Side::kRight : Side::kLeft);
    }
    budget_.charge_bytes(text->bytes.size());
    out_.append(*text);
  }

  TextPtr converted(const Directive& one) {
    const Value& value = *one.value;
    switch (one.type) {
      case 's': return cut(to_text(value, budget_), one.precision);
      case 'r':
      case 'a': return cut(make_text(repr(value, budget_)), one.precision);
      case 'c': return character(value);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o': return integer(one);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': return real(one);
      default: throw Fault(fmt::format("unsupported format character '{}'", one.type));
    }
  }

  static TextPtr cut(TextPtr text, int precision) {
    if (precision < 0 || text_length(*text) <= precision) return text;
    return slice_text(text, 0, byte_of_point(*text, precision));
  }

  static TextPtr character(const Value& value) {
    if (value.is_text() && text_length(value.text()) == 1) return value.as_text();
    XRUN_JINJA_CHECK(value.is_integral() && value.as_int() >= 0 && value.as_int() < 0x80,
                     "%c requires int or char");
    const char c = static_cast<char>(value.as_int());
    return make_text(std::string_view(&c, 1));
  }

  static std::string sign(const Directive& one, bool negative) {
    return negative ? "-" : one.plus ? "+" : one.space ? " " : "";
  }

  static TextPtr integer(const Directive& one) {
    const Value& value = *one.value;
    XRUN_JINJA_CHECK(value.is_number(), "%{} format: a real number is required, not {}", one.type,
                     type_name(value));
    int64_t number = value.as_int();
    if (value.is(Kind::kFloat)) {
      XRUN_JINJA_CHECK(std::abs(value.as_double()) < 9e18, "cannot convert float to integer");
      number = static_cast<int64_t>(value.as_double());
    }
    const uint64_t size =
        number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
    std::string digits;
    if (one.type == 'x')
      digits = fmt::format("{}{:x}", one.alternate ? "0x" : "", size);
    else if (one.type == 'X')
      digits = fmt::format("{}{:X}", one.alternate ? "0X" : "", size);
    else if (one.type == 'o')
      digits = fmt::format("{}{:o}", one.alternate ? "0o" : "", size);
    else
      digits = std::to_string(size);
    if (const int missing = one.precision - static_cast<int>(digits.size()); missing > 0) {
      digits.insert(0, static_cast<size_t>(missing), '0');
    }
    return make_text(sign(one, number < 0) + digits);
  }

  static TextPtr real(const Directive& one) {
    const Value& value = *one.value;
    XRUN_JINJA_CHECK(value.is_number(), "must be real number, not {}", type_name(value));
    const double number = value.as_double();
    const std::string format = std::string("%") + (one.alternate ? "#" : "") + ".*" + one.type;
    std::string digits(400 + kMaxWidth, '\0');
    const int size = std::snprintf(digits.data(), digits.size(), format.c_str(),
                                   one.precision < 0 ? 6 : one.precision, std::abs(number));
    digits.resize(static_cast<size_t>(std::max(size, 0)));
    return make_text(sign(one, std::signbit(number)) + digits);
  }

  const Text& format_;
  const Value& values_;
  Budget& budget_;
  TextBuilder out_;
  size_t at_ = 0;
  size_t next_ = 0;
  bool named_ = false;
};

}  // namespace

Value format_percent(const Value& text, const Value& values, Budget& budget) {
  return Percent(text.text(), values, budget).run();
}

}  // namespace xrun::jinja
