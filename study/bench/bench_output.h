// The output of `weft bench`: tables for people, JSON and a performance profile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/styled_text.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "study/bench/bench.h"

namespace weft::study {

struct BenchResult {
  std::vector<BenchInstance> instances;
  std::vector<BenchRow> rows;
  std::vector<BestKnown> best;
};

/// A line for each policy, then one for each instance with the best that is known of it.
StyledText bench_text(const BenchResult& result, std::optional<std::size_t> width);

/// The same tables in Markdown, and one of every policy on every instance: by how much its step is above the best
/// known.
std::string bench_markdown(const BenchResult& result);

JsonObject bench_json(const BenchResult& result);

/// Of each policy, the share of its instances on which its step is at most so many times the best known.
inspect::Picture performance_profile(const BenchResult& result);

}  // namespace weft::study
