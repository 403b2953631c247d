// The output of `weft bench`: tables for people, CSV, JSON and a performance profile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json_object.h"
#include "base/text/styled_text.h"
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

/// A line a row: instance, policy, tasks, step_ms, bound_ms, above_best, exposed_ms, memory_bytes, reason. Equal steps
/// give equal text, so planning times are left out.
std::string bench_csv(const BenchResult& result);

JsonObject bench_json(const BenchResult& result);

/// Of each policy, the share of its instances on which its step is at most so many times the best known.
inspect::Picture performance_profile(const BenchResult& result);

/// best.csv: instance, step, step_ms, policy, bound_ms. Times have all their digits.
std::string best_csv(std::span<const BestKnown> best);
/// Reads such a text. Throws UserError naming `file`.
std::vector<BestKnown> parse_best(std::string_view text, std::string_view file);

}  // namespace weft::study
