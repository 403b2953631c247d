// A queue of events: a heap of times, at most one for each of a fixed number of slots; a slot's time can change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace weft::time {

/// Slots with equal times come in the order of their numbers.
class EventQueue {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  explicit EventQueue(std::size_t slots = 0) : time_(slots, kNever), place_(slots, kAbsent) {}

  bool empty() const { return heap_.empty(); }
  /// The slot with the earliest time.
  std::size_t first() const { return heap_.front(); }
  /// kNever if the slot has none.
  double time(std::size_t slot) const { return time_[slot]; }

  /// Adds the slot or moves it.
  void set(std::size_t slot, double time) {
    const auto id = static_cast<std::uint32_t>(slot);
    if (place_[slot] == kAbsent) {
      place_[slot] = static_cast<std::uint32_t>(heap_.size());
      heap_.push_back(id);
      time_[slot] = time;
      up(place_[slot]);
      return;
    }
    const bool sooner = time < time_[slot];
    time_[slot] = time;
    sooner ? up(place_[slot]) : down(place_[slot]);
  }

  void remove(std::size_t slot) {
    const std::uint32_t place = place_[slot];
    if (place == kAbsent) return;
    time_[slot] = kNever;
    place_[slot] = kAbsent;
    const std::uint32_t last = heap_.back();
    heap_.pop_back();
    if (place == heap_.size()) return;
    put(place, last);
    up(place);
    down(place_[last]);
  }

 private:
  static constexpr std::uint32_t kAbsent = UINT32_MAX;

  bool before(std::uint32_t a, std::uint32_t b) const { return time_[a] < time_[b] || (time_[a] == time_[b] && a < b); }
  void put(std::size_t place, std::uint32_t slot) {
    heap_[place] = slot;
    place_[slot] = static_cast<std::uint32_t>(place);
  }
  void up(std::size_t place) {
    const std::uint32_t slot = heap_[place];
    for (; place > 0 && before(slot, heap_[(place - 1) / 2]); place = (place - 1) / 2)
      put(place, heap_[(place - 1) / 2]);
    put(place, slot);
  }
  void down(std::size_t place) {
    const std::uint32_t slot = heap_[place];
    for (;;) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
      if (!before(heap_[child], slot)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, slot);
  }

  std::vector<double> time_;
  std::vector<std::uint32_t> place_, heap_;
};

}  // namespace weft::time
