#include "core/data/rows/source_rows.h"

#include "core/data/rows/row_parse.h"

namespace xrun {

namespace {

class SourceRowWorker : public RowWorker {
 public:
  SourceRowWorker(std::unique_ptr<RowEncoder> encoder, std::unique_ptr<RowTransform> transform)
      : encoder_(std::move(encoder)), transform_(std::move(transform)) {}

  void encode(const RawRow& row, const std::string& place, EncodedRow& out) override {
    out = EncodedRow();
    Json value = parse_row(row, place, out.repairs);
    if (transform_ && !transform_->apply(value, place)) {
      throw RowRefusal("filter", "the recipe's filter leaves it out");
    }
    encoder_->encode(value, place, out);
  }

 private:
  std::unique_ptr<RowEncoder> encoder_;
  std::unique_ptr<RowTransform> transform_;
};

}  // namespace

SourceRows::SourceRows(RowKind kind, EncoderParts parts,
                       std::shared_ptr<const RowTransformSource> transform)
    : kind_(kind), parts_(std::move(parts)), transform_(std::move(transform)) {}

RowSchema SourceRows::schema() const {
  return {kind_, parts_.tokenizer.vocab_size(), parts_.settings.keep, kind_ == RowKind::kTokens};
}

std::unique_ptr<RowWorker> SourceRows::make_worker() const {
  return std::make_unique<SourceRowWorker>(make_row_encoder(kind_, parts_),
                                           transform_ ? transform_->make() : nullptr);
}

}  // namespace xrun
