#pragma once
// Opens one source of a preference set: finds its files, names its cache, checks the template's
// laws, builds where nothing is built.

#include <memory>

#include "core/data/preference_cache.h"
#include "core/data/preference_set.h"

namespace xrun {

// Returns the document whose hash names the source's cache: every byte and setting that decides a
// token, a mask or the order of rows.
Json preference_key(const PreferenceOptions& options, const PreferenceSource& source,
                    const Tokenizer& tokenizer, const ChatTemplate& chat_template);

// Opens options.sources[index]. Throws as PreferenceSet::open does.
std::shared_ptr<const PairCache> open_preference_source(const PreferenceOptions& options,
                                                        size_t index, const Tokenizer& tokenizer,
                                                        const ChatTemplate& chat_template);

}  // namespace xrun
