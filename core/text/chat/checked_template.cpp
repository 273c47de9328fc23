#include "core/text/chat/checked_template.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/chat/text_difference.h"

namespace xrun {

namespace {

class CheckedTemplate final : public ChatTemplate {
 public:
  CheckedTemplate(std::shared_ptr<const ChatTemplate> stock,
                  std::shared_ptr<const ChatTemplate> tagged)
      : stock_(std::move(stock)), tagged_(std::move(tagged)) {}

  Rendering render(const Json& messages, const Json& kwargs) const override {
    const std::string wanted = stock_->render(messages, kwargs).text;
    Rendering out = tagged_->render(messages, kwargs);
    XRUN_CHECK(out.text == wanted,
               "{} renders this row otherwise than the template that it stands in for; name a file "
               "with generation marks as the template\n{}",
               tagged_->name(), text_difference("own", wanted, "marked", out.text));
    return out;
  }

  bool marks_generation() const override { return true; }
  const std::string& source() const override { return tagged_->source(); }
  std::string name() const override { return tagged_->name(); }

  std::string digest() const override {
    Hasher hasher;
    hasher.field("stock", stock_->digest());
    hasher.field("tagged", tagged_->digest());
    return hasher.hex();
  }

 private:
  const std::shared_ptr<const ChatTemplate> stock_;
  const std::shared_ptr<const ChatTemplate> tagged_;
};

}  // namespace

std::shared_ptr<const ChatTemplate> make_checked_template(
    std::shared_ptr<const ChatTemplate> stock, std::shared_ptr<const ChatTemplate> tagged) {
  return std::make_shared<CheckedTemplate>(std::move(stock), std::move(tagged));
}

}  // namespace xrun
