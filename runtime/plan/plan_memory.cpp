#include "runtime/plan/plan_memory.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <ranges>

#include "base/assertions.h"

namespace weft::plan {
namespace {

constexpr std::int64_t align(std::int64_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

/// A scratch tensor that needs bytes.
struct Item {
  graph::TensorId tensor;
  std::int64_t bytes = 0;
};

/// The lifetimes of the scratch tensors ("items"), sorted by first use, with clocks that tell whether one ends before
/// another begins.
class Lifetimes {
 public:
  Lifetimes(const Plan& plan, const HappensBefore& order);

  std::span<const Item> items() const { return items_; }

  /// Is every access of item i complete before any access of item j starts, in the same step?
  bool done_before(std::size_t i, std::size_t j) const {
    return done_before(last_.data() + i * stride_, known_now_.data() + j * stride_);
  }

  /// Is sharing bytes forbidden for items i and j? Happens-before implies an earlier position in the sequence, so only
  /// the earlier of the two can be done first.
  bool conflict(std::size_t i, std::size_t j) const { return i < j ? !done_before(i, j) : !done_before(j, i); }

  /// By item: the index after the last item that may conflict with it. All later items start after it is done.
  std::vector<std::uint32_t> spell_ends() const;
  /// By item: the index after the last item whose first use comes no later in the sequence than its own last use. All
  /// of these conflict with it, as an item that is done before another one comes earlier in the sequence.
  const std::vector<std::uint32_t>& overlap_ends() const { return overlap_ends_; }

  /// Bytes of items that are in use at one place of the sequence, at most: no arena is smaller.
  std::int64_t least_bytes() const;

  /// By stream: the index of its last entry that accesses item i, plus 1, or 0 if there is none.
  std::span<const std::uint32_t> last(std::size_t i) const { return {last_.data() + i * stride_, streams_}; }

 private:
  static constexpr std::size_t kLanes = 8;  // clocks are padded to whole vector registers

  bool done_before(const std::uint32_t* last, const std::uint32_t* known) const {
    bool late = false;
    for (std::size_t s = 0; s < stride_; ++s) late |= last[s] > known[s];
    return !late;
  }

  std::size_t streams_, stride_;
  std::vector<Item> items_;
  std::vector<std::uint32_t> last_, known_now_;  // [item][stream]
  std::vector<std::uint32_t> overlap_ends_;
};

Lifetimes::Lifetimes(const Plan& plan, const HappensBefore& order)
    : streams_(plan.streams.size()), stride_((streams_ + kLanes - 1) / kLanes * kLanes) {
  const graph::Graph& graph = *plan.graph;
  std::vector<std::uint32_t> item_of(graph.tensors().size(), kNobody);
  std::vector<std::uint32_t> begun;  // by place in the sequence: the number of items that are in use or were
  std::vector<std::uint32_t> last_use;
  for (const graph::TaskId task : plan.sequence) {  // so items are sorted by first use
    const Position position = plan.position[task.index()];
    const std::span<const std::uint32_t> known = order.known(task);
    for (const graph::Access& access : graph.task(task).accesses) {
      const graph::TensorId id = access.view.tensor;
      const graph::Tensor& tensor = graph.tensor(id);
      if (graph::is_state(tensor.role) || tensor.bytes() == 0) continue;
      std::uint32_t& item = item_of[id.index()];
      if (item == kNobody) {
        item = static_cast<std::uint32_t>(items_.size());
        items_.push_back({id, align(tensor.bytes())});
        last_.resize(last_.size() + stride_, 0);
        known_now_.resize(known_now_.size() + stride_, kNobody);
        last_use.push_back(0);
      }
      last_use[item] = static_cast<std::uint32_t>(begun.size());
      std::uint32_t& last = last_[item * stride_ + position.stream.index()];
      last = std::max(last, position.entry + 1);
      for (std::size_t s = 0; s < streams_; ++s) {
        const auto length = static_cast<std::uint32_t>(plan.streams[s].entries.size());
        std::uint32_t& now = known_now_[item * stride_ + s];
        now = std::min(now, known[s] > length ? known[s] - length : 0);
      }
    }
    begun.push_back(static_cast<std::uint32_t>(items_.size()));
  }
  for (const std::uint32_t place : last_use) overlap_ends_.push_back(begun[place]);
  assert_that("an item's first use comes no later than its last", [&] {
    for (std::size_t i = 0; i < overlap_ends_.size(); ++i) {
      if (overlap_ends_[i] <= i) return false;
    }
    return true;
  });
}

std::int64_t Lifetimes::least_bytes() const {
  std::vector<std::int64_t> change(items_.size() + 1);
  for (std::size_t i = 0; i < items_.size(); ++i)
    change[i] += items_[i].bytes, change[overlap_ends_[i]] -= items_[i].bytes;
  std::int64_t bytes = 0, most = 0;
  for (const std::int64_t more : change) most = std::max(most, bytes += more);
  return most;
}

std::vector<std::uint32_t> Lifetimes::spell_ends() const {
  const auto items = static_cast<std::uint32_t>(items_.size());
  std::vector<std::uint32_t> least = known_now_;  // [item][stream]: minimum over this and all later items; never falls
  for (std::size_t i = items > 0 ? items - 1 : 0; i-- > 0;) {
    for (std::size_t s = 0; s < stride_; ++s) {
      least[i * stride_ + s] = std::min(least[i * stride_ + s], least[(i + 1) * stride_ + s]);
    }
  }
  std::vector<std::uint32_t> ends(items);
  for (std::uint32_t item = 0; item < items; ++item) {
    std::uint32_t first = item + 1, last = items;  // done before all items from `last` on
    while (first < last) {
      const std::uint32_t other = first + (last - first) / 2;
      if (done_before(last_.data() + item * stride_, least.data() + other * stride_)) {
        last = other;
      } else {
        first = other + 1;
      }
    }
    ends[item] = last;
    assert_that("items in use at the same place of the sequence conflict", [&] { return last >= overlap_ends_[item]; });
  }
  return ends;
}

struct Layout {
  std::vector<std::int64_t> offset;  // by item
  std::int64_t bytes = 0;
};

/// The range of bytes of a placed item.
struct Placed {
  std::int64_t begin, end;
  std::uint32_t item, overlap_end, spell_end;
};

/// The smallest gap between ranges that an item fits into. Ranges come sorted by their first byte.
class BestFit {
 public:
  explicit BestFit(std::int64_t bytes) : bytes_(bytes) {}

  void pass(std::int64_t begin, std::int64_t end) {
    const std::int64_t gap = begin - cursor_;
    if (gap >= bytes_ && gap < best_gap_) {
      best_ = cursor_;
      best_gap_ = gap;
    }
    cursor_ = std::max(cursor_, end);
  }
  /// No gap is better than one that the item fills.
  bool is_filled() const { return best_gap_ == bytes_; }
  std::int64_t offset() const { return best_ < 0 ? cursor_ : best_; }

 private:
  std::int64_t bytes_, cursor_ = 0, best_ = -1, best_gap_ = std::numeric_limits<std::int64_t>::max();
};

/// Placed items sorted by their first byte. Blocks of neighbours know bounds of their items, so that most are passed as
/// a whole: none of their items conflicts with the one to be placed, or all do and leave no gap for it.
class SortedItems {
 public:
  void assign(std::span<const Placed> sorted) {
    blocks_.clear();
    for (; !sorted.empty(); sorted = sorted.subspan(std::min(kItems, sorted.size()))) {
      blocks_.emplace_back(sorted.first(std::min(kItems, sorted.size())));
    }
  }

  void add(const Placed& placed) {
    if (blocks_.empty()) return assign({&placed, 1});
    auto at = std::ranges::upper_bound(blocks_, placed.begin, {}, &Block::begin);
    if (at != blocks_.begin()) --at;
    at->add(placed);
    if (at->items.size() <= 2 * kItems) return;
    const std::vector<Placed> items = std::move(at->items);
    *at = Block(std::span(items).first(kItems));
    blocks_.emplace(at + 1, std::span(items).subspan(kItems));
  }

  /// The first byte of the smallest sufficient gap between the items that conflict with `item`. Forgets items whose
  /// spell has ended, as those asked for next have higher indices.
  std::int64_t best_fit(const Lifetimes& lifetimes, std::uint32_t item, std::uint32_t spell_end) {
    const std::int64_t bytes = lifetimes.items()[item].bytes;
    const std::uint32_t overlap_end = lifetimes.overlap_ends()[item];
    BestFit fit(bytes);
    std::size_t kept = 0, passed = 0;
    for (Block& block : blocks_) {
      if (fit.is_filled()) break;
      if (block.least_spell_end <= item) block.drop_over(item);
      kept += block.items.size(), ++passed;
      if (block.items.empty() || block.least_item >= spell_end) continue;
      if (block.least_overlap_end > item && block.most_item < overlap_end && block.widest_gap < bytes) {
        fit.pass(block.items.front().begin, block.end);
        continue;
      }
      for (const Placed& other : block.items) {
        if (other.item >= spell_end) continue;
        const bool overlap = item < other.overlap_end && other.item < overlap_end;
        if (!overlap && !lifetimes.conflict(item, other.item)) continue;
        fit.pass(other.begin, other.end);
        if (fit.is_filled()) break;
      }
    }
    if (kept < passed * kItems / 4) repack();
    return fit.offset();
  }

 private:
  static constexpr std::size_t kItems = 32;

  void repack() {
    std::vector<Placed> all;
    for (const Block& block : blocks_) all.insert(all.end(), block.items.begin(), block.items.end());
    assign(all);
  }

  struct Block {
    explicit Block(std::span<const Placed> sorted) : Block(sorted, sorted.front().begin) {}
    Block(std::span<const Placed> sorted, std::int64_t least_begin) : begin(least_begin) {
      for (const Placed& placed : sorted) {
        if (!items.empty()) widest_gap = std::max(widest_gap, placed.begin - end);
        items.push_back(placed);
        take(placed);
      }
    }

    void add(const Placed& placed) {
      items.insert(std::ranges::upper_bound(items, placed.begin, {}, &Placed::begin), placed);
      begin = std::min(begin, placed.begin);
      take(placed);
      widest_gap = 0;
      std::int64_t last = items.front().end;
      for (const Placed& each : items) {
        widest_gap = std::max(widest_gap, each.begin - last);
        last = std::max(last, each.end);
      }
    }

    void drop_over(std::uint32_t item) {
      std::erase_if(items, [&](const Placed& placed) { return placed.spell_end <= item; });
      const std::vector<Placed> left = std::move(items);
      *this = Block(left, begin);
    }

    void take(const Placed& placed) {
      least_item = std::min(least_item, placed.item), most_item = std::max(most_item, placed.item);
      least_overlap_end = std::min(least_overlap_end, placed.overlap_end);
      least_spell_end = std::min(least_spell_end, placed.spell_end);
      end = std::max(end, placed.end);
    }

    std::vector<Placed> items;
    std::int64_t begin;  // none of the items begins before it
    std::uint32_t least_item = kNobody, most_item = 0, least_overlap_end = kNobody, least_spell_end = kNobody;
    std::int64_t end = 0, widest_gap = 0;
  };

  std::vector<Block> blocks_;
};

/// Places items, and finds the placed ones that may conflict with an item without comparing all of them. An item's
/// spell is the interval from its index to spell_ends(): items whose spells don't intersect don't conflict. The items
/// near the last one that was placed stay sorted by their first byte. So placing items in rising order, as both orders
/// of placing do for long stretches, only adds and drops a few. Otherwise the items are found by blocks of indices: a
/// block lists the items whose spell begins in it and the items whose spell intersects it.
class PlacedItems {
 public:
  explicit PlacedItems(const Lifetimes& lifetimes)
      : lifetimes_(lifetimes),
        spell_end_(lifetimes.spell_ends()),
        begin_here_((spell_end_.size() + kBlock - 1) / kBlock),
        meet_here_(begin_here_.size()) {}

  /// Puts the item into the smallest sufficient gap between the placed items that conflict with it: best fit.
  std::int64_t place(std::uint32_t item) {
    if (item < at_ || near_end_ == 0) {
      find_near(item);
    } else {
      extend_near(spell_end_[item]);
    }
    at_ = item;
    const std::int64_t offset = near_.best_fit(lifetimes_, item, spell_end_[item]);
    const Placed placed = {offset, offset + lifetimes_.items()[item].bytes, item, lifetimes_.overlap_ends()[item],
                           spell_end_[item]};
    begin_here_[item / kBlock].push_back(placed);
    for (std::size_t block = item / kBlock; block <= block_of_end(spell_end_[item]); ++block)
      meet_here_[block].push_back(placed);
    near_.add(placed);
    return offset;
  }

 private:
  static constexpr std::size_t kBlock = 512;

  static std::size_t block_of_end(std::uint32_t end) { return (end - 1) / kBlock; }

  /// Placed items whose spell meets the item's.
  void find_near(std::uint32_t item) {
    std::vector<Placed> near;
    std::ranges::copy_if(meet_here_[item / kBlock], std::back_inserter(near),
                         [&](const Placed& other) { return other.item < item && other.spell_end > item; });
    for_new(item, spell_end_[item], [&](const Placed& other) { near.push_back(other); });
    std::ranges::sort(near, {}, &Placed::begin);
    near_.assign(near);
    near_end_ = spell_end_[item];
  }

  /// Adds the placed items from near_end_ to `end`.
  void extend_near(std::uint32_t end) {
    if (end <= near_end_) return;
    for_new(near_end_, end, [&](const Placed& other) { near_.add(other); });
    near_end_ = end;
  }

  template <class F>
  void for_new(std::uint32_t begin, std::uint32_t end, const F& f) const {
    for (std::size_t block = begin / kBlock; block <= block_of_end(end); ++block) {
      for (const Placed& other : begin_here_[block]) {
        if (other.item >= begin && other.item < end) f(other);
      }
    }
  }

  const Lifetimes& lifetimes_;
  std::vector<std::uint32_t> spell_end_;         // by item
  std::vector<std::vector<Placed>> begin_here_;  // by block
  std::vector<std::vector<Placed>> meet_here_;   // by block
  std::uint32_t at_ = 0, near_end_ = 0;          // the item that was placed last
  SortedItems near_;  // all below near_end_ with a spell that ends after at_, and some others
};

Layout place(const Lifetimes& lifetimes, std::span<const std::uint32_t> order) {
  PlacedItems placed(lifetimes);
  Layout layout{std::vector<std::int64_t>(order.size()), 0};
  for (const std::uint32_t item : order) {
    layout.offset[item] = placed.place(item);
    layout.bytes = std::max(layout.bytes, layout.offset[item] + lifetimes.items()[item].bytes);
    assert_that("tensors share no cache line", [&] { return layout.offset[item] % kTensorAlignment == 0; });
  }
  return layout;
}

Layout best_layout(const Lifetimes& lifetimes) {
  std::vector<std::uint32_t> by_first_use(lifetimes.items().size());
  std::iota(by_first_use.begin(), by_first_use.end(), 0U);
  std::vector<std::uint32_t> by_size = by_first_use;
  std::ranges::stable_sort(by_size, std::ranges::greater(),
                           [&](std::uint32_t i) { return lifetimes.items()[i].bytes; });
  Layout layout = place(lifetimes, by_size);
  if (layout.bytes == lifetimes.least_bytes() || by_size == by_first_use) return layout;
  Layout other = place(lifetimes, by_first_use);
  return other.bytes < layout.bytes ? std::move(other) : std::move(layout);
}

/// The first and the last item that a range of bytes holds in a step; equal if it holds only one.
struct Occupants {
  std::uint32_t first, last;
};

/// Every pair of first and last occupants, once: only these matter. Assigns the items' ranges in order of first use.
std::vector<Occupants> occupants(const Lifetimes& lifetimes, const Layout& layout) {
  std::map<std::int64_t, Occupants> ranges = {
      {0, {kNobody, kNobody}}};  // by begin; each range ends at the next one's begin
  const auto split = [&](std::int64_t at) {
    const auto next = ranges.lower_bound(at);
    if (next != ranges.end() && next->first == at) return next;
    return ranges.emplace_hint(next, at, std::prev(next)->second);
  };
  for (std::uint32_t item = 0; item < layout.offset.size(); ++item) {
    const auto end = split(layout.offset[item] + lifetimes.items()[item].bytes);
    for (auto range = split(layout.offset[item]); range != end; ++range) {
      if (range->second.first == kNobody) range->second.first = item;
      assert_that("items that share a byte come one after the other within the step",
                  [&] { return range->second.last == kNobody || lifetimes.done_before(range->second.last, item); });
      range->second.last = item;
    }
  }
  std::vector<Occupants> result;
  for (const auto& [begin, range] : ranges) {
    if (range.first != kNobody) result.push_back(range);
  }
  const auto pair_of = [](const Occupants& o) { return std::pair(o.first, o.last); };
  const auto same = [&](const Occupants& a, const Occupants& b) { return pair_of(a) == pair_of(b); };
  std::ranges::sort(result, {}, pair_of);
  result.erase(std::unique(result.begin(), result.end(), same), result.end());
  return result;
}

/// By item: the tasks that may access it first in a step, which are those that no other access of it precedes.
std::vector<std::vector<graph::TaskId>> first_users(const Plan& plan, const HappensBefore& order,
                                                    const Lifetimes& lifetimes) {
  std::vector<std::vector<graph::TaskId>> users(lifetimes.items().size());
  std::vector<std::uint32_t> item_of(plan.graph->tensors().size(), kNobody);
  for (std::uint32_t i = 0; i < users.size(); ++i) item_of[lifetimes.items()[i].tensor.index()] = i;
  const auto comes_after = [&](graph::TaskId task, graph::TaskId other) {
    const Position at = plan.position[other.index()];
    const std::size_t passed = plan.streams[at.stream.index()].entries.size() + at.entry;
    return task == other || order.known(task)[at.stream.index()] > passed;
  };
  for (const graph::TaskId task : plan.sequence) {
    for (const graph::Access& access : plan.graph->task(task).accesses) {
      const std::uint32_t item = item_of[access.view.tensor.index()];
      if (item == kNobody) continue;
      const auto follows = [&](graph::TaskId other) { return comes_after(task, other); };
      if (std::ranges::none_of(users[item], follows)) users[item].push_back(task);
    }
  }
  return users;
}

/// The edges of distance 1 by which a step's last occupants finish before the next step's first occupants start.
std::vector<graph::Edge> boundary_edges(const Plan& plan, const HappensBefore& order, const Lifetimes& lifetimes,
                                        const Layout& layout) {
  const std::vector<std::vector<graph::TaskId>> users = first_users(plan, order, lifetimes);
  std::vector<graph::Edge> edges;
  for (const Occupants& pair : occupants(lifetimes, layout)) {
    const std::span<const std::uint32_t> last = lifetimes.last(pair.last);
    for (const graph::TaskId user : users[pair.first]) {
      const std::span<const std::uint32_t> known = order.known(user);
      for (std::size_t s = 0; s < last.size(); ++s) {
        if (last[s] <= known[s]) continue;
        edges.push_back({plan.streams[s].entries[last[s] - 1].task, user, graph::EdgeKind::completes_before,
                         graph::EdgeReason::memory, 1, lifetimes.items()[pair.first].tensor});
      }
    }
  }
  return edges;
}

}  // namespace

std::vector<graph::Edge> plan_memory(Plan& plan, const HappensBefore& order) {
  const graph::Graph& graph = *plan.graph;
  const Lifetimes lifetimes(plan, order);
  const Layout layout = best_layout(lifetimes);
  plan.offset.resize(graph.tensors().size(), kNoOffset);
  for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
    if (!graph::is_state(graph.tensors()[i].role)) plan.offset[i] = 0;
  }
  for (std::size_t i = 0; i < layout.offset.size(); ++i) {
    const Item& item = lifetimes.items()[i];
    plan.offset[item.tensor.index()] = layout.offset[i];
    plan.sum_of_tensor_bytes += item.bytes;
  }
  plan.scratch_bytes = layout.bytes;
  assert_that("sharing never takes more bytes", [&] { return plan.scratch_bytes <= plan.sum_of_tensor_bytes; });
  return boundary_edges(plan, order, lifetimes, layout);
}

}  // namespace weft::plan
