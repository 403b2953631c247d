// The output of `weft search`: a table, JSON, the front of step time against memory, and the reasons why one
// configuration beats another.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "study/search/search.h"

namespace weft::study {

/// Model FLOPs utilization: the model's arithmetic, recomputation not counted, as a share of the rate that the
/// machine's products reach.
double model_flops_share(const SearchResult& result, const Configuration& configuration);

/// The place of each configuration, from 1, in the order of AxoNN's own model (axonn_model.h); equal seconds share a
/// place.
std::vector<std::size_t> axonn_places(const SearchResult& result);

/// The first `most` configurations, and a summary of the search. `width`: columns of the terminal.
StyledText search_text(const SearchResult& result, std::size_t most, std::optional<std::size_t> width);

/// {"configurations": [...], ...}: the first `most`, best first.
JsonObject search_json(const SearchResult& result, std::size_t most);

/// Why configuration `a` is faster than `b`, both of them finalists and numbered from 1: where their times differ.
/// Throws UserError if one of them was only estimated or doesn't exist.
std::string why_text(const SearchResult& result, std::size_t a, std::size_t b);

/// The first configuration with its prediction, how much the best one of another grid loses and where, and which keys
/// were chosen: all but the `kept` ones.
StyledText choice_text(const SearchResult& result, const std::set<std::string, std::less<>>& kept,
                       std::optional<std::size_t> width);

/// Configurations that no other beats in both step and memory, by rising memory.
std::vector<const Configuration*> pareto_front(const SearchResult& result);

/// All configurations by memory and step, with their front.
inspect::Picture pareto_picture(const SearchResult& result);

}  // namespace weft::study
