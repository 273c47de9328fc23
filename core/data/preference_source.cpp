#include "core/data/preference_source.h"

#include <algorithm>
#include <filesystem>

#include "core/base/cache_root.h"
#include "core/base/error.h"
#include "core/data/cache_build.h"
#include "core/data/cache_manifest.h"
#include "core/data/data_files.h"
#include "core/data/jsonl.h"
#include "core/data/preference_type.h"
#include "core/text/template_laws.h"
#include "core/text/tokenizer.h"

namespace xrun {

namespace {

constexpr size_t kLawRows = 64;      // rows on which the laws are tried
constexpr int64_t kLawLines = 1000;  // lines in which they are looked for
constexpr size_t kListedRows = 10;   // bad rows in an error message

Json sorted_list(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  Json list = Json::array();
  for (std::string& name : names) list.push_back(std::move(name));
  return list;
}

PreferenceReader make_reader(const PreferenceOptions& options, const PreferenceSource& source) {
  return PreferenceReader(source.fields, source.keep, options.template_kwargs);
}

// The document whose hash names the source's cache: every byte and setting that decides a token, a
// mask or the order of rows.
Json key_of_files(const PreferenceOptions& options, const PreferenceSource& source,
                  const std::vector<DataFile>& files, const Tokenizer& tokenizer,
                  const ChatTemplate& chat_template) {
  Json key = Json::object();
  key.set("row_type", kPreferenceRowType);
  key.set("row_version", kPreferenceVersion);
  key.set("cache_version", kCacheVersion);
  key.set("name", source.name.empty() ? source.path : source.name);
  key.set("files", data_files_json(files));
  Json fields = Json::object();
  for (const auto& [ours, theirs] : source.fields) fields.set(ours, theirs);
  key.set("fields", std::move(fields));
  Json keep = Json::array();
  for (const std::string& name : source.keep) keep.push_back(name);
  key.set("keep", std::move(keep));
  key.set("tokenizer", tokenizer.digest());
  key.set("template_name", chat_template.name());
  key.set("template", chat_template.source());
  key.set("template_digest", chat_template.digest());
  key.set("template_kwargs", options.template_kwargs);
  key.set("train_on", train_on_name(options.train_on));
  key.set("max_length", options.max_length);
  key.set("over_length", over_length_name(options.over_length));
  key.set("laws_off", sorted_list(options.disabled_laws));
  key.set("segment_bytes", options.segment_bytes);
  return key;
}

// The first rows that can be read; bad ones are the ledger's affair.
std::vector<LawSample> sample_rows(const PreferenceReader& reader,
                                   const std::vector<DataFile>& files) {
  std::vector<LawSample> samples;
  for (size_t f = 0; f < files.size() && samples.size() < kLawRows; ++f) {
    JsonlReader lines(files[f].name, files[f].name);
    JsonLine line;
    while (samples.size() < kLawRows && lines.cursor().lines < kLawLines && lines.next(line)) {
      const std::string place = fmt::format("{}:{}", files[f].name, line.line);
      try {
        PreferenceRow row = reader.read(line.value, {static_cast<int32_t>(f), line.line});
        samples.push_back(
            {place, std::move(row.chosen), std::move(row.rejected), std::move(row.kwargs)});
      } catch (const RowRefusal&) {
        continue;
      }
    }
  }
  return samples;
}

void check_template(const PreferenceOptions& options, const PreferenceReader& reader,
                    const std::vector<DataFile>& files, const Tokenizer& tokenizer,
                    const ChatTemplate& chat_template) {
  XRUN_CHECK(chat_template.marks_generation() || options.train_on == TrainOn::kAll,
             "the chat template \"{}\" has no {{% generation %}} marks, so no token of an answer "
             "would be trained; name a template that has them, say template = \"chatml\"",
             chat_template.name());
  const std::vector<LawSample> samples = sample_rows(reader, files);
  std::string text;
  for (const LawBreach& breach :
       check_laws(tokenizer, chat_template, samples, options.disabled_laws)) {
    text += fmt::format("{}: the chat template \"{}\" breaks the law \"{}\" in {} of {} rows: {}\n",
                        breach.where, chat_template.name(), breach.law, breach.samples,
                        samples.size(), breach.message);
  }
  if (text.empty()) return;
  text.pop_back();
  throw Error(text);
}

std::string list_bad_rows(const SourceLedger& ledger) {
  std::string text;
  for (size_t i = 0; i < ledger.bad.size() && i < kListedRows; ++i) {
    const BadRow& row = ledger.bad[i];
    text += fmt::format("\n  {}  {}: {}", ledger.place(row.at), row.reason, row.detail);
  }
  for (size_t i = 0; i < ledger.repaired_at.size() && i < kListedRows; ++i) {
    text += fmt::format("\n  {}  repaired: invalid UTF-8", ledger.place(ledger.repaired_at[i]));
  }
  return text;
}

void check_ledger(const PairCache& cache, bool strict) {
  const SourceLedger& ledger = cache.ledger();
  XRUN_CHECK(ledger.rows > 0, "{}: has no rows", ledger.name);
  XRUN_CHECK(ledger.kept > 0, "{}: none of its {} rows can be used{}", ledger.name,
             count_text(ledger.rows), list_bad_rows(ledger));
  if (!strict) return;
  const int64_t bad = ledger.dropped_total();
  XRUN_CHECK(bad == 0 && ledger.cut == 0 && ledger.repaired == 0,
             "{}: {} of {} rows would be dropped, {} cut, {} repaired, and strict = true{}",
             ledger.name, count_text(bad), count_text(ledger.rows), count_text(ledger.cut),
             count_text(ledger.repaired), list_bad_rows(ledger));
}

void check_vocabulary(const PairCache& cache, int64_t vocab_limit) {
  const PairCache::Extreme largest = cache.max_token_id();
  if (vocab_limit <= 0 || largest.value < vocab_limit) return;
  throw Error(fmt::format(
      "{}: has the token id {}, the model's vocabulary has {} ids; the tokenizer belongs to "
      "another model",
      cache.ledger().place(cache.at(largest.row)), largest.value, vocab_limit));
}

}  // namespace

std::shared_ptr<const PairCache> open_preference_source(const PreferenceOptions& options,
                                                        size_t index, const Tokenizer& tokenizer,
                                                        const ChatTemplate& chat_template) {
  const PreferenceSource& source = options.sources.at(index);
  const PreferenceReader reader = make_reader(options, source);
  require_law_names(options.disabled_laws);
  CacheSource build;
  build.name = source.name.empty() ? source.path : source.name;
  build.notice = options.notice;
  build.files =
      find_data_files(source.path, [&](const std::string& file, uint64_t done, uint64_t total) {
        if (!options.progress) return;
        const double fraction = static_cast<double>(done) / static_cast<double>(total);
        options.progress({.source = file, .hashing = true, .fraction = fraction});
      });
  build.key_document = key_of_files(options, source, build.files, tokenizer, chat_template);
  build.segment_bytes = options.segment_bytes;
  if (options.progress) {
    build.progress = [&](int64_t rows, double fraction) {
      options.progress({.source = build.name, .rows = rows, .fraction = fraction});
    };
  }
  const std::filesystem::path root =
      (options.cache_root.empty() ? cache_root() : options.cache_root) / "data";
  if (!is_cached(root, build)) {
    tokenizer.finish_loading();
    check_template(options, reader, build.files, tokenizer, chat_template);
  }
  PreferenceRowType row_type(reader, source.keep,
                             {options.max_length, options.over_length, options.train_on}, tokenizer,
                             chat_template);
  std::shared_ptr<const PairCache> cache = PairCache::open(ensure_cache(root, build, row_type));
  check_ledger(*cache, options.strict);
  check_vocabulary(*cache, options.vocab_limit);
  return cache;
}

}  // namespace xrun
