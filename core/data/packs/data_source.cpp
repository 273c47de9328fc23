// The key is computed before any row is read, and contains everything that may change a byte of the
// cache. The laws of the template are checked only before a cache is built.

#include "core/data/packs/data_source.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/base/strings.h"
#include "core/data/cache/cache_build.h"
#include "core/data/cache/cache_manifest.h"
#include "core/data/cache/data_files.h"
#include "core/data/rows/data_fault.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/row_encoder.h"
#include "core/data/rows/row_parse.h"
#include "core/data/rows/row_splitter.h"
#include "core/text/chat/fitting_templates.h"
#include "core/text/chat/template_laws.h"

namespace xrun {

namespace {

// Raise it when the same input gives different bytes: an encoder changes, or a bug fix in rendering
// or tokenising changes tokens.
constexpr int64_t kRowVersion = 17;
constexpr size_t kLawRows = 64;           // rows on which the laws are checked
constexpr int64_t kLawLines = 1000;       // lines of each file from which they are taken
constexpr size_t kLawRowBytes = 1 << 20;  // longer rows are skipped: they are not typical

std::string source_name(const DataSource& source) {
  return source.name.empty() ? source.path : source.name;
}

// Sorts the names, so that their order in a recipe does not change the key.
Json sorted_list(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  Json list = Json::array();
  for (std::string& name : names) list.push_back(std::move(name));
  return list;
}

// The digest covers more than the source, for example today's date if the template prints it.
void add_template(Json& key, const DataOptions& options, const ChatTemplate& chat_template) {
  key.set("template_name", chat_template.name());
  key.set("template", chat_template.source());
  key.set("template_digest", chat_template.digest());
  key.set("template_kwargs", options.settings.template_kwargs);
  key.set("laws_off", sorted_list(options.disabled_laws));
}

// Returns the document whose hash names the source's cache: everything that decides a token, a mask
// or the order of rows. "segment_bytes": shards were called segments when the key was fixed.
Json key_of_files(const DataOptions& options, const DataSource& source,
                  const std::vector<DataFile>& files, const RowEncoding& encoding) {
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
  key.set("tokenizer", encoding.tokenizer->digest());
  if (uses_template(options.kind)) add_template(key, options, *encoding.chat_template);
  if (options.kind == RowKind::kText) key.set("end_of_text", encoding.settings.end_of_text);
  key.set("train_on", train_on_name(encoding.settings.train_on));
  key.set("max_length", encoding.settings.max_length);
  key.set("over_length", over_length_name(encoding.settings.over_length));
  if (source.transform) key.set("transform", source.transform->source());
  key.set("segment_bytes", options.shard_bytes);
  return key;
}

// Adds the rows of a block that can be read; the build will count the others.
void sample_block(RowEncoder& encoder, const std::string& file, RowForm form, const RowBlock& block,
                  std::vector<LawSample>& samples) {
  for (size_t r = 0; r < block.rows.size() && samples.size() < kLawRows; ++r) {
    const RowBlock::RowExtent& row = block.rows[r];
    if (row.line > kLawLines) return;
    // Laws are checked on rows that are quick to render.
    if (block.text(r).size() > kLawRowBytes) continue;
    const std::string location = fmt::format("{}:{}", file, row.line);
    int64_t repairs = 0;
    try {
      const Json value =
          encoder.read({block.text(r), form, {0, row.line}, row.column}, location, repairs);
      samples.push_back(encoder.law_sample(value));
      samples.back().where = location;
    } catch (const RowRefusal&) {
      // counted by the build
    }
  }
}

// Returns the first rows that can be read.
std::vector<LawSample> sample_rows(RowEncoder& encoder, const std::vector<DataFile>& files) {
  std::vector<LawSample> samples;
  for (const DataFile& file : files) {
    if (samples.size() == kLawRows) break;  // opening a file reads and decompresses its beginning
    const auto splitter = RowSplitter::open(file.name, file.name);
    RowBlock block;
    while (samples.size() < kLawRows && block.after.lines < kLawLines && splitter->next(block)) {
      sample_block(encoder, file.name, splitter->form(), block, samples);
    }
  }
  return samples;
}

// Returns the setting to continue with if no row would train an answer. Turning the law off would
// not help then.
std::vector<PastedSetting> marking_template(const Tokenizer& tokenizer) {
  const std::vector<std::string> fitting = fitting_templates(tokenizer);
  if (fitting.empty()) return {};
  return {{"template=" + fitting.front(), "a built-in template that marks the answers"}};
}

// Finds on a few rows, before hours of encoding, that a template trains the wrong tokens.
void check_template(const DataOptions& options, const RowEncoding& encoding,
                    const std::vector<DataFile>& files) {
  const ChatTemplate& chat_template = *encoding.chat_template;
  // Without marks nothing tells which tokens belong to an answer.
  XRUN_CHECK(chat_template.marks_generation() || encoding.settings.train_on == TrainOn::kAll,
             "the chat template \"{}\" has no {{% generation %}} marks, so no token of an answer "
             "would be trained; name a template that has them, say template = \"chatml\"",
             chat_template.name());
  const std::unique_ptr<RowEncoder> encoder = make_row_encoder(encoding);
  const std::vector<LawSample> samples = sample_rows(*encoder, files);
  std::string text;
  std::string setting;
  bool trains = true;
  int64_t broken = 0;
  for (const LawBreach& breach :
       check_laws(*encoding.tokenizer, chat_template, samples, options.disabled_laws)) {
    // Under "all" the tokens around the answers train without marks.
    trains &= breach.law != kMaskLaw || breach.samples < breach.rendered ||
              encoding.settings.train_on == TrainOn::kAll;
    ++broken;
    add_item(setting, fmt::format("laws.{}=false", breach.law), " --set ");
    text += fmt::format("{}: the chat template \"{}\" breaks the law \"{}\" in {} of {} rows: {}\n",
                        breach.where, chat_template.name(), breach.law, breach.samples,
                        samples.size(), breach.message);
  }
  if (text.empty()) return;
  text.pop_back();
  if (!trains) {
    throw data_error(text +
                         "\n  mark the text of assistant turns in the template, with {% generation "
                         "%} before it and {% endgeneration %} after it",
                     "", marking_template(*encoding.tokenizer));
  }
  throw data_error(text, "",
                   {{setting, broken == 1 ? "train although the template breaks this law"
                                          : "train although the template breaks these laws"}});
}

// The largest id of the whole cache is in its summary, so this costs nothing.
void check_vocabulary(const RowCache& cache, int64_t vocab_limit) {
  const RowCache::Extreme largest = cache.max_token_id();
  if (vocab_limit <= 0 || largest.value < vocab_limit) return;
  throw DataError(fmt::format(
      "{}: has the token id {}, the model's vocabulary has {} ids; the tokenizer belongs to "
      "another model",
      cache.ledger().location(cache.at(largest.row)), largest.value, vocab_limit));
}

// Returns everything that a build needs apart from the key, the schema and the encoder.
CacheSource cache_source(const DataOptions& options, const DataSource& source,
                         const std::filesystem::path& root) {
  CacheSource build;
  build.name = source_name(source);
  build.notice = options.notice;
  build.shard_bytes = options.shard_bytes;
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

RowEncoding row_encoding(const DataOptions& options, size_t index,
                         const std::shared_ptr<const ChatTemplate>& chat_template) {
  const DataSource& from = options.sources.at(index);
  RowEncoding encoding;
  encoding.kind = options.kind;
  encoding.settings = options.settings;
  encoding.settings.fields = from.fields;
  encoding.settings.keep = from.keep;
  if (!options.config_path.empty()) {
    encoding.settings.config_path = fmt::format("{}.{}", options.config_path, index + 1);
  }
  encoding.chat_template = from.chat_template ? from.chat_template : chat_template;
  encoding.transform = from.transform;
  return encoding;
}

// Cheap checks come first: settings, names, files, laws, cache.
std::shared_ptr<const RowCache> open_data_source(
    const DataOptions& options, size_t index, const Tokenizer& tokenizer,
    const std::shared_ptr<const ChatTemplate>& chat_template) {
  const DataSource& source = options.sources.at(index);
  RowEncoding encoding = row_encoding(options, index, chat_template);
  encoding.tokenizer = &tokenizer;
  const auto is_off = [&](const char* law) {
    return std::find(options.disabled_laws.begin(), options.disabled_laws.end(), law) !=
           options.disabled_laws.end();
  };
  encoding.settings.lost_calls = is_off(kToolCallsLaw);
  encoding.settings.lost_turns = is_off(kTurnsLaw);
  RowEncoding settings_alone = encoding;
  // A transform would open Lua states for a check that needs none.
  settings_alone.transform = nullptr;
  make_row_encoder(settings_alone);  // refuses wrong settings before any file is read
  require_law_names(options.disabled_laws);
  const std::filesystem::path store =
      options.cache_root.empty() ? cache_root() : options.cache_root;
  const std::filesystem::path root = store / "data";
  CacheSource build = cache_source(options, source, store);
  build.key_document = key_of_files(options, source, build.files, encoding);
  // A finished cache was checked when it was built, since its key contains template and data.
  if (!is_cached(root, build)) {
    // The tokenizer's slow tables are needed only to encode.
    tokenizer.finish_loading();
    const bool trains = options.kind != RowKind::kPrompts;
    if (uses_template(options.kind) && trains) check_template(options, encoding, build.files);
  }
  build.schema = row_schema(encoding);
  build.make_encoder = [&encoding] { return make_row_encoder(encoding); };
  std::shared_ptr<const RowCache> cache = RowCache::open(ensure_cache(root, build), options.kind);
  const SourceLedger& ledger = cache->ledger();
  const bool unread = ledger.rows > 0 && ledger.kept == 0;
  if (options.strict) check_strict(ledger, false);
  check_kept(ledger, options.max_bad, unread ? row_form_hint(build.files[0].name) : "",
             options.settings.model_length);
  // Not part of the key: two models of one tokenizer share the cache.
  check_vocabulary(*cache, options.vocab_limit);
  return cache;
}

}  // namespace xrun
