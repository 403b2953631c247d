#include "runtime/policy/compile/rewrite_to_fit.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/policy/builtin/list_policies.h"
#include "runtime/policy/builtin/program.h"

namespace weft::policy {
namespace {

// A tight memory asks for few weights that are gathered ahead, many micro-batches for more.
constexpr std::int64_t kTriedAhead[] = {2, 8};

constexpr std::size_t kPartsOfStage = 4;  // of a stage's layers

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// The numbers of layers, from the first one on, that are computed again and whose weights are gathered again; with
/// several classes the number of parts of their layers, rounded up.
struct Point {
  std::size_t recomputed = 0, resharded = 0;
  auto operator<=>(const Point&) const = default;  // NOLINT(modernize-use-nullptr): see base/id.h
};

/// Layers of a graph, and of these the layers that the rewrites change.
struct ClassLayers {
  std::vector<std::int32_t> all, recomputed, resharded;
};

/// Layers of which `graph` has more tasks than the plain graph has; without a graph: that the plain graph has.
std::vector<std::int32_t> layers_with_more_tasks(const graph::Graph& plain, const graph::Graph* graph) {
  std::map<std::int32_t, std::int64_t> more;
  for (const graph::Task& task : plain.tasks()) more[task.layer] += graph == nullptr ? 1 : -1;
  if (graph != nullptr) {
    for (const graph::Task& task : graph->tasks()) ++more[task.layer];
  }
  std::vector<std::int32_t> layers;
  for (const auto& [layer, tasks] : more) {
    if (layer >= 0 && tasks > 0) layers.push_back(layer);
  }
  return layers;
}

class RewriteSearch {
 public:
  RewriteSearch(std::size_t classes, const Rewritten& rewritten, const std::vector<bool>& short_of_memory,
                const PolicyOptions& options)
      : rewritten_(rewritten), options_(options), layers_(classes) {
    const auto after = [&](const plan::Rewrite& rewrite) {
      return rewritten(std::vector<std::vector<plan::Rewrite>>(classes, {rewrite}));
    };
    const auto plain = rewritten(std::vector<std::vector<plan::Rewrite>>(classes));
    const auto recomputed = after(plan::RecomputeLayers{}), resharded = after(plan::ReshardAfterForward{});
    for (std::size_t k = 0; k < classes; ++k) {
      if (!short_of_memory[k]) continue;
      layers_[k] = {layers_with_more_tasks(*plain[k], nullptr), layers_with_more_tasks(*plain[k], recomputed[k].get()),
                    layers_with_more_tasks(*plain[k], resharded[k].get())};
      most_.recomputed = std::max(most_.recomputed, layers_[k].recomputed.size());
      most_.resharded = std::max(most_.resharded, layers_[k].resharded.size());
    }
    if (several()) most_.resharded = 0;
  }

  FittingRewrites search() {
    found_.possible = most_ != Point();
    if (!found_.possible) return std::move(found_);
    if (several()) {
      look_at_parts();
    } else {
      look_at_layers();
    }
    found_.priced = static_cast<std::size_t>(
        std::ranges::count_if(prices_, [](const auto& each) { return each.second < kInfinite; }));
    if (best_ == Point()) return std::move(found_);
    found_.rewrites = rewrites_of(best_);
    found_.graphs = rewritten_(found_.rewrites);
    return std::move(found_);
  }

 private:
  bool several() const { return layers_.size() > 1; }

  /// The first of a class's layers; empty, which means all layers, if these are all that a single graph has.
  std::vector<std::int32_t> first(const ClassLayers& of, const std::vector<std::int32_t>& layers,
                                  std::size_t count) const {
    if (!several() && count == of.all.size()) return {};
    return {layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  std::vector<std::vector<plan::Rewrite>> rewrites_of(Point point) const {
    std::vector<std::vector<plan::Rewrite>> rewrites;
    for (const ClassLayers& of : layers_) {
      std::vector<plan::Rewrite>& each = rewrites.emplace_back();
      std::size_t recomputed = point.recomputed;
      if (several()) recomputed = (of.recomputed.size() * recomputed + kPartsOfStage - 1) / kPartsOfStage;
      if (recomputed > 0) each.emplace_back(plan::RecomputeLayers{first(of, of.recomputed, recomputed)});
      if (point.resharded > 0) each.emplace_back(plan::ReshardAfterForward{first(of, of.resharded, point.resharded)});
    }
    return rewrites;
  }

  // List schedules run tasks ahead of the program only if the rest of the program still fits, so serial program order
  // tells whether they can keep the limits.
  bool fits(Point point) {
    const auto [known, is_new] = fits_.try_emplace(point, false);
    if (is_new) {
      const auto graphs = rewritten_(rewrites_of(point));
      LimitedOrders serial = planned(graphs, SerialPolicy().orders(graphs, options_), options_);
      known->second = serial.fits();
      if (found_.least.scratch_bytes.empty() || serial.excess < found_.least.excess) found_.least = std::move(serial);
    }
    return known->second;
  }

  /// The least number of recomputed layers that fits; nullopt if none does.
  std::optional<std::size_t> least_recomputed(std::size_t resharded) {
    std::size_t low = 0, high = most_.recomputed;
    // Activations of the last layer are needed again at once, so computing it again may take more memory.
    if (!fits({high, resharded}) && (high == 0 || !fits({--high, resharded}))) return std::nullopt;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (fits({middle, resharded})) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return high;
  }

  /// Nanoseconds of the point's step.
  double price_at(Point point) {
    const auto [known, is_new] = prices_.try_emplace(point, kInfinite);
    if (!is_new) return known->second;
    known->second = price(rewritten_(rewrites_of(point)));
    if (std::tuple(known->second, point) < std::tuple(shortest_, best_)) {
      shortest_ = known->second;
      best_ = point;
    }
    return known->second;
  }

  /// Of the shortest of a few orders that keep the limits.
  double price(const std::vector<std::shared_ptr<const graph::Graph>>& graphs) const {
    const LimitedLists lists(graphs, options_);
    if (several()) {
      const LimitedOrders found = lists.shortest(by_priority(upward_rank(lists.tasks())));
      return found.fits() ? found.makespan : kInfinite;
    }
    double least = kInfinite;
    const auto enter = [&](const LimitedOrders& found) {
      if (found.fits()) least = std::min(least, found.makespan);
    };
    for (const std::int64_t ahead : kTriedAhead) {
      enter(lists.within([&](ListScheduler& scheduler) { return lhs_.schedules(scheduler); },
                         lists.gathers() ? ahead : options_.gathers_ahead));
      if (!lists.gathers()) break;
    }
    if (least == kInfinite) enter(lists.weigh(SerialPolicy().orders(graphs, options_)));
    return least;
  }

  void look_at_parts() {
    for (std::size_t part = 1; part <= kPartsOfStage; ++part) {
      fits({part, 0});  // how much memory serial orders take, for a refusal
      price_at({part, 0});
    }
  }

  /// All of the space at a coarse grain, then once more finely near the best.
  void look_at_layers() {
    const std::size_t all = most_.resharded, grain = std::max<std::size_t>(1, all / 4);
    for (std::size_t resharded = all;; resharded -= std::min(resharded, grain)) {
      look_at(resharded);
      if (resharded == 0) break;
    }
    const std::size_t near = best_.resharded, half = grain / 2;
    if (half > 0 && near >= half) look_at(near - half);
    if (half > 0 && near + half <= all) look_at(near + half);
  }

  void look_at(std::size_t resharded) {
    const std::optional<std::size_t> least = least_recomputed(resharded);
    if (!least) return;
    double last = price_at({*least, resharded});
    for (std::size_t more = 1; *least + more <= most_.recomputed; more *= 2) {
      const double next = price_at({*least + more, resharded});
      if (next >= last) break;
      last = next;
    }
  }

  const Rewritten& rewritten_;
  const PolicyOptions& options_;
  std::vector<ClassLayers> layers_;  // none of a class that has memory enough
  Point most_;
  const LhsPolicy lhs_;
  std::map<Point, bool> fits_;
  std::map<Point, double> prices_;
  Point best_;
  double shortest_ = kInfinite;
  FittingRewrites found_;
};

}  // namespace

FittingRewrites find_fitting_rewrites(std::size_t classes, const Rewritten& rewritten,
                                      const std::vector<bool>& short_of_memory, const PolicyOptions& options) {
  return RewriteSearch(classes, rewritten, short_of_memory, options).search();
}

}  // namespace weft::policy
