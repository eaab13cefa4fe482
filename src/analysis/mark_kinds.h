// Kinds of tokens as the shards' own marks tell them (data/token_marks.h): by construction, without a tokenizer.
#pragma once

#include <memory>

#include "analysis/token_kinds.h"
#include "data/window_source.h"

namespace satformer {

// The kinds that occur in the first `count` windows, which are those that may be asked for. `windows` has marks and
// outlives the result.
std::unique_ptr<TokenKinds> make_mark_kinds(const WindowSource& windows, std::int64_t count);

}  // namespace satformer
