#include "runtime/policy/scheduling/memory_forecast.h"

#include <algorithm>

#include "base/assertions.h"

namespace weft::policy {

MemoryForecast::MemoryForecast(const graph::Graph& graph, std::int64_t alignment)
    : tasks_(graph.tasks().size()), lives_(graph.tensors().size()) {
  begin_.push_back(0);
  for (std::size_t i = 0; i < tasks_; ++i) {
    for (const graph::Access& access : graph.tasks()[i].accesses) {
      const graph::Tensor& tensor = graph.tensor(access.view.tensor);
      const std::uint32_t id = access.view.tensor.value;
      if (graph::is_state(tensor.role)) continue;
      if (std::find(tensors_.begin() + begin_.back(), tensors_.end(), id) != tensors_.end()) continue;
      tensors_.push_back(id);
      Life& life = lives_[id];
      if (life.accessors++ == 0) {
        life.bytes = (tensor.bytes() + alignment - 1) / alignment * alignment;
        life.first = static_cast<std::uint32_t>(i);
      }
      life.last = static_cast<std::uint32_t>(i);
    }
    begin_.push_back(static_cast<std::uint32_t>(tensors_.size()));
  }
  while (leaves_ < tasks_) leaves_ *= 2;
  std::vector<std::int64_t> change(tasks_ + 1, 0);
  for (const Life& life : lives_) {
    if (life.accessors == 0) continue;
    change[life.first] += life.bytes;
    change[life.last + 1] -= life.bytes;
  }
  program_.assign(2 * leaves_, 0);
  std::int64_t live = 0;
  for (std::size_t i = 0; i < tasks_; ++i) program_[leaves_ + i] = live += change[i];
  for (std::size_t n = leaves_; n-- > 1;) program_[n] = std::max(program_[2 * n], program_[2 * n + 1]);
  reset();
}

void MemoryForecast::reset() {
  most_ = program_;
  more_.assign(2 * leaves_, 0);
  accesses_left_.resize(lives_.size());
  for (std::size_t i = 0; i < lives_.size(); ++i) accesses_left_[i] = lives_[i].accessors;
  done_.assign(tasks_, 0);
  live_ = allocated_ = 0;
  front_ = 0;
}

// A tensor is allocated when the first task that accesses it starts. No access is counted as done until a task ends, so
// a bit in the counter marks tensors that are alive: see start().
namespace {
constexpr std::uint32_t kAlive = std::uint32_t{1} << 31;
}

std::int64_t MemoryForecast::adds(std::size_t task) const {
  std::int64_t bytes = 0;
  for (const std::uint32_t tensor : tensors_of(task)) {
    if ((accesses_left_[tensor] & kAlive) == 0) bytes += lives_[tensor].bytes;
  }
  return bytes;
}

std::int64_t MemoryForecast::frees(std::size_t task) const {
  std::int64_t bytes = 0;
  for (const std::uint32_t tensor : tensors_of(task)) {
    if ((accesses_left_[tensor] & ~kAlive) == 1) bytes += lives_[tensor].bytes;
  }
  return bytes;
}

std::int64_t MemoryForecast::peak_with(std::size_t task) const {
  const std::int64_t bytes = adds(task), here = largest(task, task + 1);
  return task <= front_ ? here : std::max(here, largest(front_, task) + bytes);
}

void MemoryForecast::start(std::size_t task) {
  assert_that("a task starts before its end", [&] { return done_[task] == 0; });
  for (const std::uint32_t tensor : tensors_of(task)) {
    if ((accesses_left_[tensor] & kAlive) != 0) continue;
    accesses_left_[tensor] |= kAlive;
    const Life& life = lives_[tensor];
    live_ += life.bytes;
    allocated_ += life.bytes;
    if (life.first > front_) add(front_, life.first, life.bytes);
  }
}

std::int64_t MemoryForecast::finish(std::size_t task) {
  assert_that("a task that ends was started, and ends once", [&] {
    return done_[task] == 0 && std::ranges::all_of(tensors_of(task), [&](std::uint32_t tensor) {
             return (accesses_left_[tensor] & kAlive) != 0 && (accesses_left_[tensor] & ~kAlive) > 0;
           });
  });
  done_[task] = 1;
  while (front_ < tasks_ && done_[front_] != 0) ++front_;
  std::int64_t freed = 0;
  for (const std::uint32_t tensor : tensors_of(task)) {
    if ((--accesses_left_[tensor] & ~kAlive) != 0) continue;
    const Life& life = lives_[tensor];
    freed += life.bytes;
    if (life.last >= front_) add(front_, life.last + std::size_t{1}, -life.bytes);
  }
  live_ -= freed;
  assert_that("only bytes that are alive are freed", [&] { return live_ >= 0; });
  return freed;
}

// A tree over the places, bottom up: node n covers 2n and 2n+1; most_[n] holds the maximum of its places, without the
// amounts added at n or above.
void MemoryForecast::add(std::size_t from, std::size_t to, std::int64_t bytes) {
  if (from >= to) return;
  std::size_t left = from + leaves_, right = to + leaves_;
  const std::size_t first = left, last = right - 1;
  for (; left < right; left /= 2, right /= 2) {
    if ((left & 1) != 0) more_[left++] += bytes;
    if ((right & 1) != 0) more_[--right] += bytes;
  }
  const auto pull = [&](std::size_t node) {
    while (node > 1) {
      node /= 2;
      most_[node] = std::max(top(2 * node), top(2 * node + 1));
    }
  };
  pull(first);
  pull(last);
}

std::int64_t MemoryForecast::largest(std::size_t from, std::size_t to) const {
  if (from >= to) return 0;
  // Walks up from both ends; adds the amount of each node above a covered node when its side passes that node.
  std::size_t left = from + leaves_, right = to - 1 + leaves_;
  std::int64_t from_left = top(left), from_right = top(right);
  while (left / 2 != right / 2) {
    if ((left & 1) == 0) from_left = std::max(from_left, top(left + 1));
    if ((right & 1) != 0) from_right = std::max(from_right, top(right - 1));
    left /= 2;
    right /= 2;
    from_left += more_[left];
    from_right += more_[right];
  }
  std::int64_t result = std::max(from_left, from_right);
  for (std::size_t node = left / 2; node >= 1; node /= 2) result += more_[node];
  return result;
}

std::size_t MemoryForecast::first_above(std::int64_t bytes) const {
  if (front_ >= tasks_) return tasks_;
  // Walks up from the front to the first node on its right that holds such a place, then down to the place.
  const auto above = [&](std::size_t node) {  // sum of the amounts added further up
    std::int64_t sum = 0;
    while (node > 1) sum += more_[node /= 2];
    return sum;
  };
  std::size_t node = front_ + leaves_;
  std::int64_t added = above(node);
  while (top(node) + added <= bytes) {
    while ((node & 1) != 0) {
      if (node == 1) return tasks_;
      node /= 2;
      added -= more_[node];
    }
    ++node;  // its sibling, which has the same nodes above
  }
  while (node < leaves_) {
    added += more_[node];
    node *= 2;
    if (top(node) + added <= bytes) ++node;
  }
  return std::min(node - leaves_, tasks_);
}

}  // namespace weft::policy
