// The key is made before any row is read: what may change a byte of the cache stands in it. The
// laws of templates are tried before a cache is built, and never again.

#include "core/data/packs/data_source.h"

#include <algorithm>
#include <filesystem>

#include "core/base/cache_root.h"
#include "core/base/error.h"
#include "core/data/cache/cache_build.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/data_files.h"
#include "core/data/rows/ledger_check.h"
#include "core/data/rows/row_form_hint.h"
#include "core/data/rows/row_parse.h"
#include "core/data/rows/row_splitter.h"
#include "core/data/rows/source_rows.h"
#include "core/text/chat/template_laws.h"

namespace xrun {

namespace {

// Raised when the same input gives other bytes: of one kind, when its encoder changes.
constexpr int64_t kRowVersion = 10;
constexpr size_t kLawRows = 64;           // rows on which the laws are tried
constexpr int64_t kLawLines = 1000;       // lines of each file in which they are looked for
constexpr size_t kLawRowBytes = 1 << 20;  // of one of them; longer rows stand for no others

std::string source_name(const DataSource& source) {
  return source.name.empty() ? source.path : source.name;
}

Json sorted_list(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  Json list = Json::array();
  for (std::string& name : names) list.push_back(std::move(name));
  return list;
}

void add_template(Json& key, const DataOptions& options, const ChatTemplate& chat_template) {
  key.set("template_name", chat_template.name());
  key.set("template", chat_template.source());
  key.set("template_digest", chat_template.digest());
  key.set("template_kwargs", options.settings.template_kwargs);
  key.set("laws_off", sorted_list(options.disabled_laws));
}

// The document whose hash names the source's cache: every byte and setting that decides a token, a
// mask or the order of rows.
Json key_of_files(const DataOptions& options, const DataSource& source,
                  const std::vector<DataFile>& files, const EncoderParts& parts) {
  Json key = Json::object();
  key.set("row_type", row_kind_name(options.kind));
  key.set("row_version", kRowVersion);
  key.set("cache_version", kCacheVersion);
  key.set("name", source_name(source));
  key.set("files", data_files_json(files));
  Json fields = Json::object();
  for (const auto& [ours, theirs] : source.fields) fields.set(ours, theirs);
  key.set("fields", std::move(fields));
  Json keep = Json::array();
  for (const std::string& name : source.keep) keep.push_back(name);
  key.set("keep", std::move(keep));
  key.set("tokenizer", parts.tokenizer.digest());
  if (uses_template(options.kind)) add_template(key, options, *parts.chat_template);
  if (options.kind == RowKind::kText) key.set("end_of_text", parts.settings.end_of_text);
  key.set("train_on", train_on_name(parts.settings.train_on));
  key.set("max_length", parts.settings.max_length);
  key.set("over_length", over_length_name(parts.settings.over_length));
  if (source.transform) key.set("transform", source.transform->source());
  key.set("segment_bytes", options.segment_bytes);
  return key;
}

// Adds what can be read of a block; bad rows are the ledger's affair.
void sample_block(const RowEncoder& encoder, RowTransform* transform, const std::string& file,
                  RowForm form, const RowBlock& block, std::vector<LawSample>& samples) {
  for (size_t r = 0; r < block.rows.size() && samples.size() < kLawRows; ++r) {
    const RowBlock::Row& place_in_file = block.rows[r];
    if (place_in_file.line > kLawLines) return;
    if (block.text(r).size() > kLawRowBytes) continue;
    const std::string place = fmt::format("{}:{}", file, place_in_file.line);
    int64_t repairs = 0;
    try {
      Json value = parse_row({block.text(r), form, {0, place_in_file.line}, place_in_file.column},
                             place, repairs);
      if (transform != nullptr && !transform->apply(value, place)) continue;
      samples.push_back(encoder.law_sample(value));
      samples.back().where = place;
    } catch (const RowRefusal&) {
      continue;
    }
  }
}

// The first rows that can be read.
std::vector<LawSample> sample_rows(const RowEncoder& encoder, RowTransform* transform,
                                   const std::vector<DataFile>& files) {
  std::vector<LawSample> samples;
  for (const DataFile& file : files) {
    if (samples.size() == kLawRows) break;  // a file's head is read, and decompressed, when opened
    const auto splitter = RowSplitter::open(file.name, file.name);
    RowBlock block;
    while (samples.size() < kLawRows && block.behind.lines < kLawLines && splitter->next(block)) {
      sample_block(encoder, transform, file.name, splitter->form(), block, samples);
    }
  }
  return samples;
}

void check_template(const DataOptions& options, const EncoderParts& parts, RowTransform* transform,
                    const std::vector<DataFile>& files) {
  const ChatTemplate& chat_template = *parts.chat_template;
  XRUN_CHECK(chat_template.marks_generation() || parts.settings.train_on == TrainOn::kAll,
             "the chat template \"{}\" has no {{% generation %}} marks, so no token of an answer "
             "would be trained; name a template that has them, say template = \"chatml\"",
             chat_template.name());
  const std::unique_ptr<RowEncoder> encoder = make_row_encoder(options.kind, parts);
  const std::vector<LawSample> samples = sample_rows(*encoder, transform, files);
  std::string text;
  for (const LawBreach& breach :
       check_laws(parts.tokenizer, chat_template, samples, options.disabled_laws)) {
    text += fmt::format("{}: the chat template \"{}\" breaks the law \"{}\" in {} of {} rows: {}\n",
                        breach.where, chat_template.name(), breach.law, breach.samples,
                        samples.size(), breach.message);
  }
  if (text.empty()) return;
  text.pop_back();
  throw Error(text);
}

void check_vocabulary(const RowCache& cache, int64_t vocab_limit) {
  const RowCache::Extreme largest = cache.max_token_id();
  if (vocab_limit <= 0 || largest.value < vocab_limit) return;
  throw Error(fmt::format(
      "{}: has the token id {}, the model's vocabulary has {} ids; the tokenizer belongs to "
      "another model",
      cache.ledger().place(cache.at(largest.row)), largest.value, vocab_limit));
}

CacheSource cache_source(const DataOptions& options, const DataSource& source,
                         const std::filesystem::path& root) {
  CacheSource build;
  build.name = source_name(source);
  build.notice = options.notice;
  build.segment_bytes = options.segment_bytes;
  build.workers = options.workers;
  build.strict = options.strict;
  build.digests = FileDigests(root / kFileDigestsFolder);
  const auto hashing = [&](const std::string& file, uint64_t done, uint64_t total) {
    if (!options.progress) return;
    const double fraction = static_cast<double>(done) / static_cast<double>(total);
    options.progress({.source = file, .hashing = true, .fraction = fraction});
  };
  build.files = find_data_files(source.path, hashing, build.digests);
  if (options.progress) {
    build.progress = [progress = options.progress, name = build.name](int64_t rows,
                                                                      double fraction) {
      progress({.source = name, .rows = rows, .fraction = fraction});
    };
  }
  return build;
}

}  // namespace

std::shared_ptr<const RowCache> open_data_source(
    const DataOptions& options, size_t index, const Tokenizer& tokenizer,
    const std::shared_ptr<const ChatTemplate>& chat_template) {
  const DataSource& source = options.sources.at(index);
  EncoderParts parts{options.settings, tokenizer,
                     source.chat_template ? source.chat_template : chat_template};
  parts.settings.fields = source.fields;
  parts.settings.keep = source.keep;
  parts.settings.lost_calls = std::find(options.disabled_laws.begin(), options.disabled_laws.end(),
                                        kToolCallsLaw) != options.disabled_laws.end();
  make_row_encoder(options.kind, parts);  // what it refuses is said before any file is read
  require_law_names(options.disabled_laws);
  const std::filesystem::path store =
      options.cache_root.empty() ? cache_root() : options.cache_root;
  const std::filesystem::path root = store / "data";
  CacheSource build = cache_source(options, source, store);
  build.key_document = key_of_files(options, source, build.files, parts);
  if (!is_cached(root, build)) {
    tokenizer.finish_loading();
    const std::unique_ptr<RowTransform> transform =
        source.transform ? source.transform->make() : nullptr;
    const bool trains = options.kind != RowKind::kPrompts;
    if (uses_template(options.kind) && trains) {
      check_template(options, parts, transform.get(), build.files);
    }
  }
  const SourceRows rows(options.kind, parts, source.transform);
  std::shared_ptr<const RowCache> cache =
      RowCache::open(ensure_cache(root, build, rows), options.kind);
  const SourceLedger& ledger = cache->ledger();
  const bool unread = ledger.rows > 0 && ledger.kept == 0;
  if (options.strict) check_strict(ledger, false);
  check_kept(ledger, options.max_bad, unread ? row_form_hint(build.files[0].name) : "");
  check_vocabulary(*cache, options.vocab_limit);
  return cache;
}

}  // namespace xrun
