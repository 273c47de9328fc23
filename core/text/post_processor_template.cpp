// TemplateProcessing: fixed tokens before and after the text, from the template "single".

#include "core/text/post_processor.h"

namespace xrun {

namespace {

class Template : public PostProcessor {
 public:
  explicit Template(const ComponentSpec& spec) {
    size_t texts = 0;
    for (const ComponentSpec& piece : spec.list("single")) {
      if (piece.has("Sequence")) {
        const std::string& id = piece.member("Sequence").text("id");
        XRUN_CHECK(id == "A", "{}.Sequence.id: got \"{}\", wanted \"A\" in \"single\"",
                   piece.where(), id);
        ++texts;
        continue;
      }
      add_special(spec, piece, texts > 0 ? after_ : before_);
    }
    XRUN_CHECK(texts == 1, "{}.single: the text appears {} times, wanted once", spec.where(),
               texts);
  }

  void apply(Encoding& encoding, const PostContext& context) const override {
    if (!context.add_tokens) return;
    const ByteRange nothing{0, 0};
    encoding.ids.insert(encoding.ids.begin(), before_.begin(), before_.end());
    encoding.offsets.insert(encoding.offsets.begin(), before_.size(), nothing);
    encoding.ids.insert(encoding.ids.end(), after_.begin(), after_.end());
    encoding.offsets.insert(encoding.offsets.end(), after_.size(), nothing);
  }
  void leading(std::vector<int32_t>& ids) const override {
    ids.insert(ids.end(), before_.begin(), before_.end());
  }
  void each_id(const std::function<void(int64_t id)>& check) const override {
    for (const int32_t id : before_) check(id);
    for (const int32_t id : after_) check(id);
  }

 private:
  // Appends the ids that "special_tokens" gives for a piece of the template.
  static void add_special(const ComponentSpec& spec, const ComponentSpec& piece,
                          std::vector<int32_t>& out) {
    const std::string& name = piece.member("SpecialToken").text("id");
    const ComponentSpec ids = spec.member("special_tokens").member(name);
    XRUN_CHECK(ids.member("ids").json().is_array(), "{}.ids: wanted an array", ids.where());
    for (const Json& id : ids.member("ids").json().as_array()) {
      XRUN_CHECK(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX,
                 "{}.ids: wanted ids", ids.where());
      out.push_back(int32_t(id.as_int()));
    }
  }

  std::vector<int32_t> before_;
  std::vector<int32_t> after_;
};

std::unique_ptr<const PostProcessor> make(const ComponentSpec& spec) {
  return std::make_unique<Template>(spec);
}

const bool kAdded = ComponentTable<PostProcessor>::add("TemplateProcessing", make);

}  // namespace

}  // namespace xrun
