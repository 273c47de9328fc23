#pragma once
// Opens one source of a data set: finds its files and its cache, and builds the cache if there is
// none, after checking the template's laws.

#include <memory>

#include "core/data/cache/row_cache.h"
#include "core/data/packs/data_options.h"
#include "core/data/rows/row_encoder.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

// Returns how the rows of options.sources[index] are encoded, except for the tokenizer.
RowEncoding row_encoding(const DataOptions& options, size_t index,
                         const std::shared_ptr<const ChatTemplate>& chat_template);

// Opens options.sources[index]. The template is null where the kind of rows uses none. Throws as
// DataSet::open does.
std::shared_ptr<const RowCache> open_data_source(
    const DataOptions& options, size_t index, const Tokenizer& tokenizer,
    const std::shared_ptr<const ChatTemplate>& chat_template);

}  // namespace xrun
