#include "runtime/simulate/certify/window.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::simulate {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// Sums of chosen items.
struct Chosen {
  double head = kNone, tail = kNone, ns = 0, lost = 0, loss = 0;  // head, tail: the least; loss: the greatest

  void add(const ResourceItem& item, double item_head, double item_tail) {
    head = std::min(head, item_head);
    tail = std::min(tail, item_tail);
    ns += item.ns;
    lost += item.ns * item.loss;
    loss = std::max(loss, item.loss);
  }
  bool none() const { return head == kNone; }
  double alone() const { return none() ? 0 : head + ns + tail; }
  double lost_within(const Chosen& window) const {
    if (none()) return 0;
    const double outside = std::max(0.0, window.head - head) + std::max(0.0, window.tail - tail);
    return std::max(0.0, lost - outside * loss);
  }
};

Chosen chosen_of(const StepResource& resource, const Limits& limits, const Thresholds& thresholds) {
  Chosen chosen;
  for (const ResourceItem& item : resource.items) {
    const double head = limits.head[item.node], tail = limits.tail[item.node];
    if (item.ns > 0 && head >= thresholds.head && tail >= thresholds.tail) chosen.add(item, head, tail);
  }
  return chosen;
}

struct PlacedItem {
  double head, tail;
  const ResourceItem* item;
};

/// The items that count, by rising head.
std::vector<PlacedItem> placed_items(std::span<const ResourceItem> all, const Limits& limits) {
  std::vector<PlacedItem> items;
  for (const ResourceItem& item : all) {
    const double head = limits.head[item.node];
    if (item.ns > 0 && !std::isnan(head)) items.push_back({head, limits.tail[item.node], &item});
  }
  std::ranges::stable_sort(items, {}, &PlacedItem::head);
  return items;
}

/// At most `most` of the values, the least among them, rising.
std::vector<double> some_of(std::vector<double> values, std::size_t most) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (values.size() <= most) return values;
  std::vector<double> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(values[i * values.size() / most]);
  return some;
}

/// For the sums of Q by both thresholds, in the order in which S is swept: with falling tail.
class SlowedSweep {
 public:
  SlowedSweep(const StepResource& beside, const Limits& limits)
      : name_(beside.name), by_tail_(placed_items(beside.items, limits)) {
    for (const PlacedItem& each : by_tail_) {
      all_.add(*each.item, each.head, each.tail);
      least_ = {std::min(least_.head, each.head), std::min(least_.tail, each.tail)};
    }
    std::ranges::stable_sort(by_tail_, std::ranges::greater(), &PlacedItem::tail);
  }
  void begin(double head) {
    head_ = head;
    next_ = 0;
    within_ = later_ = {};
    earlier_ = {};
    for (const PlacedItem& each : by_tail_) {
      if (each.head >= head) later_.add(*each.item, each.head, each.tail);
    }
  }
  void reach(double tail) {
    for (; next_ < by_tail_.size() && by_tail_[next_].tail >= tail; ++next_) {
      const PlacedItem& each = by_tail_[next_];
      earlier_.add(*each.item, each.head, each.tail);
      if (each.head >= head_) within_.add(*each.item, each.head, each.tail);
    }
    tail_ = tail;
  }
  /// The most that any of four sets takes away: all items, those with either threshold, those with both.
  void improve(const Chosen& window, const WorkWindow& of, ProvedWindow& best) const {
    const auto offer = [&](const Chosen& set, double head, double tail) {
      const double ns = window.alone() + set.lost_within(window);
      if (ns <= best.ns) return;
      best = {ns, of};
      best.window.beside = name_;
      best.window.beside_chosen = {head, tail};
    };
    offer(all_, least_.head, least_.tail);
    offer(later_, head_, least_.tail);
    offer(earlier_, least_.head, tail_);
    offer(within_, head_, tail_);
  }

 private:
  ResourceName name_;
  std::vector<PlacedItem> by_tail_;
  Thresholds least_{kNone, kNone};
  double head_ = 0, tail_ = 0;
  std::size_t next_ = 0;
  Chosen all_, later_, earlier_, within_;
};

void improve_slowed(ProvedWindow& best, const StepResource& resource, const StepResource& beside, const Limits& limits,
                    std::size_t most) {
  std::vector<PlacedItem> items = placed_items(resource.items, limits);
  std::vector<double> heads, tails;
  for (const PlacedItem& each : items) {
    heads.push_back(each.head);
    tails.push_back(each.tail);
  }
  heads = some_of(std::move(heads), most);
  tails = some_of(std::move(tails), most);
  std::ranges::stable_sort(items, std::ranges::greater(), &PlacedItem::tail);
  SlowedSweep sweep(beside, limits);
  for (const double head : heads) {
    sweep.begin(head);
    Chosen window;
    std::size_t next = 0;
    for (auto tail = tails.rbegin(); tail != tails.rend(); ++tail) {
      for (; next < items.size() && items[next].tail >= *tail; ++next) {
        if (items[next].head >= head) window.add(*items[next].item, items[next].head, items[next].tail);
      }
      sweep.reach(*tail);
      if (!window.none()) sweep.improve(window, {.resource = resource.name, .chosen = {head, *tail}}, best);
    }
  }
}

}  // namespace

double proved_by(const WorkWindow& window, const StepModel& model, const Limits& limits) {
  if (window.resource.kind == ResourceKind::task) {
    const std::uint32_t node =
        model.node_of(window.resource.class_index, static_cast<std::size_t>(window.resource.number));
    return limits.head[node] + model.cost(node) + limits.tail[node];
  }
  const Chosen chosen = chosen_of(model.resource(window.resource), limits, window.chosen);
  if (chosen.none() || !window.beside) return chosen.alone();
  return chosen.alone() +
         chosen_of(model.slowing(window.resource.class_index, *window.beside), limits, window.beside_chosen)
             .lost_within(chosen);
}

ProvedAlone best_alone(std::span<const ResourceItem> items, const Limits& limits, std::size_t most) {
  std::vector<PlacedItem> by_tail = placed_items(items, limits);
  std::vector<double> heads;
  for (const PlacedItem& each : by_tail) heads.push_back(each.head);
  std::ranges::stable_sort(by_tail, std::ranges::greater(), &PlacedItem::tail);
  ProvedAlone best;
  for (const double head : some_of(std::move(heads), most)) {
    double work = 0;
    for (const PlacedItem& each : by_tail) {
      if (each.head < head) continue;
      work += each.item->ns;
      if (head + work + each.tail > best.ns) best = {head + work + each.tail, {head, each.tail}};
    }
  }
  return best;
}

ProvedWindow best_window(const StepResource& resource, const StepModel& model, const Limits& limits, std::size_t most) {
  const auto [ns, chosen] = best_alone(resource.items, limits);
  ProvedWindow best{ns, {.resource = resource.name, .chosen = chosen}};
  if (resource.name.kind != ResourceKind::computations) return best;
  for (const StepResource& beside : model.slowing(resource.name.class_index))
    improve_slowed(best, resource, beside, limits, most);
  return best;
}

ProvedWindow whole_window(const StepResource& resource, const StepModel& model, const Limits& limits) {
  constexpr double kLeast = 0;
  ProvedWindow best;
  const Chosen chosen = chosen_of(resource, limits, {kLeast, kLeast});
  if (chosen.none()) return best;
  best = {chosen.alone(), {.resource = resource.name, .chosen = {chosen.head, chosen.tail}}};
  if (resource.name.kind != ResourceKind::computations) return best;
  for (const StepResource& beside : model.slowing(resource.name.class_index)) {
    const Chosen all = chosen_of(beside, limits, {kLeast, kLeast});
    const double ns = chosen.alone() + all.lost_within(chosen);
    if (ns <= best.ns) continue;
    best.ns = ns;
    best.window.beside = beside.name;
    best.window.beside_chosen = {all.head, all.tail};
  }
  return best;
}

}  // namespace weft::simulate
