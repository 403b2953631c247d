// The configurations that a search found: a table, JSON, the front of step time against memory, and the reasons why one
// beats another.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "study/experiment.h"
#include "study/search/search.h"

namespace weft::study {

/// As text the first `most` configurations, a summary of the search and `reasons`; as JSON {"configurations": [...],
/// ..., "why": reasons}; as a picture all configurations by memory and step, with their front. `result` outlives them.
Results results_of(const SearchResult& result, std::size_t most, const std::string& reasons = "");

/// Why configuration `a` is faster than `b`, both of them finalists and numbered from 1: where their times differ.
/// Throws UserError if one of them was only estimated or doesn't exist.
std::string why_text(const SearchResult& result, std::size_t a, std::size_t b);

/// The first configuration with its prediction, how much the best one of another grid loses and where, and which keys
/// were chosen: all but the `kept` ones.
StyledText setup_text(const SearchResult& result, const KeptKeys& kept, std::optional<std::size_t> width);

}  // namespace weft::study
