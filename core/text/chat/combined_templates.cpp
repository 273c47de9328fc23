// A template made of others decides at each rendering which one applies; its digest covers all.

#include "core/text/chat/combined_templates.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/chat/text_difference.h"

namespace xrun {

namespace {

// Chooses by the row's tools, as transformers does if a tokenizer has a "tool_use" template.
class ToolTemplate final : public ChatTemplate {
 public:
  ToolTemplate(std::shared_ptr<const ChatTemplate> plain,
               std::shared_ptr<const ChatTemplate> tool_use)
      : plain_(std::move(plain)), tool_use_(std::move(tool_use)) {}

  Rendering render(const Json& messages, const Json& kwargs) const override {
    return chosen(kwargs).render(messages, kwargs);
  }
  const ChatTemplate& chosen(const Json& kwargs) const override {
    const Json* tools = kwargs.is_object() ? kwargs.find("tools") : nullptr;
    // An empty list of tools chooses tool_use too, as in transformers.
    const bool has_tools = tools != nullptr && !tools->is_null();
    return has_tools ? *tool_use_ : *plain_;
  }

  // A row may go to either, so both need marks.
  bool marks_generation() const override {
    return plain_->marks_generation() && tool_use_->marks_generation();
  }
  const std::string& source() const override { return plain_->source(); }
  std::string name() const override { return plain_->name(); }

  std::string digest() const override {
    Hasher hasher;
    hasher.field("plain", plain_->digest());
    hasher.field("tool_use", tool_use_->digest());
    return hasher.hex();
  }

 private:
  const std::shared_ptr<const ChatTemplate> plain_;
  const std::shared_ptr<const ChatTemplate> tool_use_;
};

// Refuses the rows that need this template; the others train.
class RefusedTemplate final : public ChatTemplate {
 public:
  RefusedTemplate(std::string name, std::string source, std::string message)
      : name_(std::move(name)), source_(std::move(source)), message_(std::move(message)) {}

  Rendering render(const Json&, const Json&) const override { throw Error(message_); }
  bool marks_generation() const override { return true; }  // nothing is rendered without marks
  const std::string& source() const override { return source_; }
  std::string name() const override { return name_; }
  std::string digest() const override { return hash_hex(message_); }

 private:
  const std::string name_;
  const std::string source_;
  const std::string message_;
};

// Renders by both templates and refuses a row on which they differ.
class CheckedTemplate final : public ChatTemplate {
 public:
  CheckedTemplate(std::shared_ptr<const ChatTemplate> stock,
                  std::shared_ptr<const ChatTemplate> marked)
      : stock_(std::move(stock)), marked_(std::move(marked)) {}

  Rendering render(const Json& messages, const Json& kwargs) const override {
    const std::string wanted = stock_->render(messages, kwargs).text;
    Rendering out = marked_->render(messages, kwargs);
    XRUN_CHECK(
        out.text == wanted,
        "{} renders this row differently from the tokenizer's own template; name a file with "
        "generation marks as the template\n{}",
        marked_->name(), text_difference("own", wanted, "marked", out.text));
    return out;
  }

  bool marks_generation() const override { return true; }
  const std::string& source() const override { return marked_->source(); }
  std::string name() const override { return marked_->name(); }

  std::string digest() const override {
    Hasher hasher;
    hasher.field("stock", stock_->digest());
    // "tagged", the older word: this digest is in the keys of token caches.
    hasher.field("tagged", marked_->digest());
    return hasher.hex();
  }

 private:
  const std::shared_ptr<const ChatTemplate> stock_;
  const std::shared_ptr<const ChatTemplate> marked_;
};

}  // namespace

std::shared_ptr<const ChatTemplate> make_tool_template(
    std::shared_ptr<const ChatTemplate> plain, std::shared_ptr<const ChatTemplate> tool_use) {
  return std::make_shared<ToolTemplate>(std::move(plain), std::move(tool_use));
}

std::shared_ptr<const ChatTemplate> make_refused_template(std::string name, std::string source,
                                                          std::string message) {
  return std::make_shared<RefusedTemplate>(std::move(name), std::move(source), std::move(message));
}

std::shared_ptr<const ChatTemplate> make_checked_template(
    std::shared_ptr<const ChatTemplate> stock, std::shared_ptr<const ChatTemplate> marked) {
  return std::make_shared<CheckedTemplate>(std::move(stock), std::move(marked));
}

}  // namespace xrun
