#include "runtime/policy/rewrite_to_fit.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/plan/plan.h"
#include "runtime/policy/builtin/lhs.h"
#include "runtime/policy/builtin/serial.h"
#include "runtime/policy/scheduling/arrangement.h"
#include "runtime/policy/scheduling/limited_lists.h"

namespace weft::policy {
namespace {

// A tight memory asks for few weights that are gathered ahead, many micro-batches for more.
constexpr std::int64_t kTriedAhead[] = {2, 8};

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// The numbers of layers, from the first one on, that are computed again and whose weights are gathered again.
struct Point {
  std::size_t recomputed = 0, resharded = 0;
  auto operator<=>(const Point&) const = default;  // NOLINT(modernize-use-nullptr): see base/id.h
};

class RewriteSearch {
 public:
  RewriteSearch(const Rewritten& rewritten, const PolicyOptions& options)
      : rewritten_(rewritten),
        options_(options),
        plain_(rewritten({})),
        layers_(layers_with_more_tasks(nullptr)),
        recomputed_(changed_by(plan::RecomputeLayers{})),
        resharded_(changed_by(plan::ReshardAfterForward{})) {}

  FittingRewrites search() {
    found_.possible = !recomputed_.empty() || !resharded_.empty();
    if (!found_.possible) return std::move(found_);
    // All of the space at a coarse grain, then once more finely near the best.
    const std::size_t all = resharded_.size(), grain = std::max<std::size_t>(1, all / 4);
    for (std::size_t resharded = all;; resharded -= std::min(resharded, grain)) {
      look_at(resharded);
      if (resharded == 0) break;
    }
    const std::size_t near = best_.resharded, half = grain / 2;
    if (half > 0 && near >= half) look_at(near - half);
    if (half > 0 && near + half <= all) look_at(near + half);
    found_.priced = static_cast<std::size_t>(
        std::ranges::count_if(prices_, [](const auto& each) { return each.second < kInfinite; }));
    if (best_ == Point()) return std::move(found_);
    found_.rewrites = rewrites_of(best_);
    found_.graph = rewritten_(found_.rewrites);
    return std::move(found_);
  }

 private:
  /// Layers of which `graph` has more tasks than the plain graph has; without a graph: that the plain graph has.
  std::vector<std::int32_t> layers_with_more_tasks(const graph::Graph* graph) const {
    std::map<std::int32_t, std::int64_t> more;
    for (const graph::Task& task : plain_->tasks()) more[task.layer] += graph == nullptr ? 1 : -1;
    if (graph != nullptr) {
      for (const graph::Task& task : graph->tasks()) ++more[task.layer];
    }
    std::vector<std::int32_t> layers;
    for (const auto& [layer, tasks] : more) {
      if (layer >= 0 && tasks > 0) layers.push_back(layer);
    }
    return layers;
  }

  std::vector<std::int32_t> changed_by(const plan::Rewrite& rewrite) const {
    return layers_with_more_tasks(rewritten_({&rewrite, 1}).get());
  }

  /// The first of `layers`; empty, which means all layers, if these are all that the graph has.
  std::vector<std::int32_t> first(const std::vector<std::int32_t>& layers, std::size_t count) const {
    if (count == layers_.size()) return {};
    return {layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(count)};
  }

  std::vector<plan::Rewrite> rewrites_of(Point point) const {
    std::vector<plan::Rewrite> rewrites;
    if (point.recomputed > 0) rewrites.emplace_back(plan::RecomputeLayers{first(recomputed_, point.recomputed)});
    if (point.resharded > 0) rewrites.emplace_back(plan::ReshardAfterForward{first(resharded_, point.resharded)});
    return rewrites;
  }

  std::int64_t scratch_of(const std::shared_ptr<const graph::Graph>& graph, const plan::Order& order) {
    const std::int64_t bytes = plan::make_plan(graph, order, "tried").scratch_bytes;
    if (found_.least_scratch == 0 || bytes < found_.least_scratch) found_.least_scratch = bytes;
    return bytes;
  }

  // List schedules run tasks ahead of the program only if the rest of the program still fits, so serial program order
  // tells whether they can keep the limit.
  bool fits(Point point) {
    const auto [known, is_new] = fits_.try_emplace(point, false);
    if (is_new) {
      const auto graph = rewritten_(rewrites_of(point));
      known->second = scratch_of(graph, serial_order(*graph, program_sequence(*graph))) <= options_.memory_limit;
    }
    return known->second;
  }

  /// The least number of recomputed layers that fits; nullopt if none does.
  std::optional<std::size_t> least_recomputed(std::size_t resharded) {
    std::size_t low = 0, high = recomputed_.size();
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
    known->second = price(*rewritten_(rewrites_of(point)));
    if (std::tuple(known->second, point) < std::tuple(shortest_, best_)) {
      shortest_ = known->second;
      best_ = point;
    }
    return known->second;
  }

  /// Of the shortest of a few orders that keep the limit.
  double price(const graph::Graph& graph) const {
    const std::shared_ptr<const graph::Graph> borrowed = graph::borrowed(graph);
    const LimitedLists lists({&borrowed, 1}, options_);
    double least = kInfinite;
    const auto enter = [&](const LimitedOrders& found) {
      if (found.fits()) least = std::min(least, found.makespan);
    };
    const bool gathers = std::ranges::any_of(graph.tasks(), is_gather);
    for (const std::int64_t ahead : kTriedAhead) {
      enter(lists.within([&](ListScheduler& scheduler) { return lhs_.schedules(scheduler); },
                         gathers ? ahead : options_.gathers_ahead));
      if (!gathers) break;
    }
    if (least == kInfinite) enter(lists.weigh({serial_order(graph, program_sequence(graph))}));
    return least;
  }

  void look_at(std::size_t resharded) {
    const std::optional<std::size_t> least = least_recomputed(resharded);
    if (!least) return;
    double last = price_at({*least, resharded});
    for (std::size_t more = 1; *least + more <= recomputed_.size(); more *= 2) {
      const double next = price_at({*least + more, resharded});
      if (next >= last) break;
      last = next;
    }
  }

  const Rewritten& rewritten_;
  const PolicyOptions& options_;
  std::shared_ptr<const graph::Graph> plain_;
  std::vector<std::int32_t> layers_, recomputed_, resharded_;  // of the graph; that the rewrites change
  const LhsPolicy lhs_;
  std::map<Point, bool> fits_;
  std::map<Point, double> prices_;
  Point best_;
  double shortest_ = kInfinite;
  FittingRewrites found_;
};

}  // namespace

FittingRewrites find_fitting_rewrites(const Rewritten& rewritten, const PolicyOptions& options) {
  return RewriteSearch(rewritten, options).search();
}

}  // namespace weft::policy
