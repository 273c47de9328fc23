// TemplateProcessing: fixed tokens before and after the text, from the template "single".

#include "core/text/surrounding_tokens.h"

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
      add_special(spec, piece, texts > 0 ? tokens_.after : tokens_.before);
    }
    XRUN_CHECK(texts == 1, "{}.single: the text appears {} times, wanted once", spec.where(),
               texts);
  }

  void apply(Encoding& encoding, const PostContext& context) const override {
    if (context.add_tokens) tokens_.add_to(encoding);
  }
  void leading(std::vector<int32_t>& ids) const override {
    ids.insert(ids.end(), tokens_.before.begin(), tokens_.before.end());
  }
  void each_id(const std::function<void(int64_t id)>& check) const override {
    tokens_.each_id(check);
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

  SurroundingTokens tokens_;
};

std::unique_ptr<const PostProcessor> make(const ComponentSpec& spec) {
  return std::make_unique<Template>(spec);
}

const bool kAdded = ComponentTable<PostProcessor>::add("TemplateProcessing", make);

}  // namespace

}  // namespace xrun
