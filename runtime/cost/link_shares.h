// The shares that collectives get of a link which they use at once.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::cost {

/// A collective that runs alone uses its link for a part of its time, its `use`: bytes occupy a link, latency doesn't.
/// While the uses of a link's collectives add up to at most 1, each runs as if alone. Otherwise all get an equal share
/// of the link, and what a collective doesn't need of its share goes to the others (max-min fairness).
///
///   uses 0.2, 0.9, 0.9   →   shares 0.2, 0.4, 0.4   →   rates 1, 0.44, 0.44
class LinkShares {
 public:
  explicit LinkShares(std::size_t links) : uses_(links), level_(links, 1) {}

  void clear() {
    for (std::vector<double>& uses : uses_) uses.clear();
  }
  /// Adds a running collective, whose `use` is from 0 to 1.
  void add(std::size_t link, double use) { uses_[link].push_back(use); }
  /// After the last add(), before rate().
  void divide() {
    for (std::size_t link = 0; link < uses_.size(); ++link) level_[link] = level_of(uses_[link]);
  }
  /// The speed of a collective of this use; 1: as if alone.
  double rate(std::size_t link, double use) const { return use > level_[link] ? level_[link] / use : 1; }

 private:
  /// The greatest share of any collective.
  static double level_of(const std::vector<double>& uses);

  std::vector<std::vector<double>> uses_;  // by link
  std::vector<double> level_;              // by link
};

}  // namespace weft::cost
