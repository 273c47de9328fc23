#include "core/text/chat/tool_template.h"

#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"

namespace xrun {

namespace {

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
    const bool has_tools = tools != nullptr && !tools->is_null();
    return has_tools ? *tool_use_ : *plain_;
  }

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

}  // namespace

std::shared_ptr<const ChatTemplate> make_tool_template(
    std::shared_ptr<const ChatTemplate> plain, std::shared_ptr<const ChatTemplate> tool_use) {
  return std::make_shared<ToolTemplate>(std::move(plain), std::move(tool_use));
}

std::shared_ptr<const ChatTemplate> make_refused_template(std::string name, std::string source,
                                                          std::string message) {
  return std::make_shared<RefusedTemplate>(std::move(name), std::move(source), std::move(message));
}

}  // namespace xrun
