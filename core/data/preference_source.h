#pragma once
// Opens one source of a preference set: finds its files, names its cache, checks the template's
// laws, builds where nothing is built.

#include <memory>

#include "core/data/preference_cache.h"
#include "core/data/preference_set.h"

namespace xrun {

// Opens options.sources[index]. Throws as PreferenceSet::open does.
std::shared_ptr<const PairCache> open_preference_source(const PreferenceOptions& options,
                                                        size_t index, const Tokenizer& tokenizer,
                                                        const ChatTemplate& chat_template);

}  // namespace xrun
