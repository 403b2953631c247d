// How well a model has written the end of a document, and means of such figures with their intervals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weft::study {

/// The tokens that a model wrote, compared with the document's.
struct Recall {
  bool exact = false;       // every token is the document's
  std::int64_t prefix = 0;  // tokens before the first that differs
  double rouge_l = 0;       // see rouge_l()
  friend bool operator==(const Recall&, const Recall&) = default;
};

/// ROUGE-L over tokens: 2·L/(m + n), L the length of the longest common subsequence of m and n tokens (Lin, "ROUGE: a
/// package for automatic evaluation of summaries", 2004, equations 2 to 4 with β = 1). 1 for two empty texts.
double rouge_l(std::span<const std::int32_t> original, std::span<const std::int32_t> written);

Recall recall_of(std::span<const std::int32_t> original, std::span<const std::int32_t> written);

/// A mean and its 95 % interval.
struct MeanInterval {
  double mean = 0, low = 0, high = 0;
};

/// The mean of values that come in groups, such as a seed's documents. The interval is that of the two-stage bootstrap:
/// groups are drawn with replacement, then values of each (Davison and Hinkley, "Bootstrap methods and their
/// application", 1997, section 3.8), 2,000 times. A pure function. Empty groups don't count.
MeanInterval mean_interval(std::span<const std::vector<double>> groups);

}  // namespace weft::study
