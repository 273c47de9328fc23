// An extra column is a number or a string, so the list of choices is kept as its JSON text.

#include "core/data/rows/choice_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

[[noreturn]] void refuse_choices(const std::string& text) { throw RowRefusal("bad_choices", text); }

// Returns the choices as texts. Numbers become theirs: a list of years is a list of choices too.
Json read_choices(const Json* value) {
  if (value == nullptr || !value->is_array() || value->size() < 2) {
    refuse_choices(fmt::format("\"choices\" is {}, wanted a list of at least two texts",
                               value == nullptr ? "missing" : dump_json(*value)));
  }
  Json texts = Json::array();
  for (const Json& choice : value->as_array()) {
    std::string text = choice.is_string()   ? choice.as_string()
                       : choice.is_number() ? dump_json(choice)
                                            : std::string();
    if (text.empty()) {
      refuse_choices(
          fmt::format("a choice is {}, wanted a text that is not empty", dump_json(choice)));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

// Returns the index of the right choice, counted from 0; the row has it or the text of the choice.
int64_t read_answer(const Json* value, const Json& choices) {
  const auto count = static_cast<int64_t>(choices.size());
  if (value != nullptr && value->is_int() && value->as_int() >= 0 && value->as_int() < count) {
    return value->as_int();
  }
  if (value != nullptr && value->is_string()) {
    const Json::Array& list = choices.as_array();
    // Equal choices have equal scores, so the first is as good as any.
    const auto found = std::find(list.begin(), list.end(), *value);
    if (found != list.end()) return found - list.begin();
  }
  refuse_choices(fmt::format("\"answer\" is {}, wanted the index of a choice, 0 to {}, or its text",
                             value == nullptr ? "missing" : dump_json(*value), count - 1));
}

class ChoiceRows : public RowTransform {
 public:
  explicit ChoiceRows(std::unique_ptr<RowTransform> own) : own_(std::move(own)) {}

  bool apply(Json& row, const std::string& location) override {
    // The recipe's map runs first: it may make the two columns.
    if (own_ && !own_->apply(row, location)) return false;
    if (!row.is_object()) return true;  // the reader refuses it
    const Json choices = read_choices(row.find("choices"));
    const int64_t answer = read_answer(row.find("answer"), choices);
    row.set("choices", dump_json(choices));
    row.set("answer", answer);
    return true;
  }

 private:
  std::unique_ptr<RowTransform> own_;
};

class ChoiceRowsSource : public RowTransformSource {
 public:
  // source() is in the keys of token caches: a new number there rebuilds them.
  explicit ChoiceRowsSource(std::shared_ptr<const RowTransformSource> own)
      : own_(std::move(own)), source_("choices 1;" + (own_ ? own_->source() : std::string())) {}

  std::unique_ptr<RowTransform> make() const override {
    return std::make_unique<ChoiceRows>(own_ ? own_->make() : nullptr);
  }
  const std::string& source() const override { return source_; }

 private:
  std::shared_ptr<const RowTransformSource> own_;
  std::string source_;
};

}  // namespace

std::shared_ptr<const RowTransformSource> make_choice_rows(
    std::shared_ptr<const RowTransformSource> own) {
  return std::make_shared<ChoiceRowsSource>(std::move(own));
}

std::vector<std::string> choice_texts(const std::string& column) {
  std::vector<std::string> texts;
  const Json list = parse_json(column, "choices");
  for (const Json& text : list.as_array()) texts.push_back(text.as_string());
  return texts;
}

}  // namespace xrun
