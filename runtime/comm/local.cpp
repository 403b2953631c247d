// Collectives between threads of one process.
//
// Each member publishes its call and then advances on its own, in its calls of progress(): sum its slice from all
// buffers, wait for the others' sums, copy them, wait until no member reads its buffers. Three counters tell each
// member's progress. They count collectives and only rise, so nothing is reset between collectives.
#include "runtime/comm/local.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "runtime/comm/backoff.h"

namespace weft::comm {
namespace {

constexpr std::int64_t kBytesPerCall =
    1 << 20;  // upper limit of the bytes that one call of progress() reads: about 100 µs

// The state that one member shows to the others. Counters have separate cache lines, so that polling doesn't slow a
// member.
struct Member {
  alignas(64) std::atomic<std::uint64_t> published{0};  // collectives started; `call` is the newest of them
  CollectiveCall call{};
  alignas(64) std::atomic<std::uint64_t> summed{0};  // collectives whose own slice is ready to be copied
  alignas(64) std::atomic<std::uint64_t> done{
      0};                                        // collectives for which this member has stopped reading other buffers
  alignas(64) std::atomic<bool> reading{false};  // inside progress()
};

using Group = std::vector<Member>;

// The ranks' shared state: the blocking exchange, the groups being formed, and whether a rank gave up.
class Shared {
 public:
  explicit Shared(int size) : size_(size), deposits_(static_cast<std::size_t>(size)) {}

  int size() const { return size_; }

  // Every rank's bytes, by rank. The last rank to arrive publishes them; the last to leave makes room for the next
  // exchange.
  std::vector<std::vector<std::byte>> exchange(int rank, std::span<const std::byte> bytes) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return leaving_ == 0; });
    deposits_[static_cast<std::size_t>(rank)].assign(bytes.begin(), bytes.end());
    const std::uint64_t generation = generation_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      leaving_ = size_;
      ++generation_;
      changed_.notify_all();
    }
    wait(lock, [&] { return generation_ != generation; });
    auto result = deposits_;
    if (--leaving_ == 0) changed_.notify_all();
    return result;
  }

  // The group of `members` ranks that the `split`-th call of split() makes for `color`; the first caller creates it.
  std::shared_ptr<Group> join_group(std::uint64_t split, int color, int members) {
    const std::lock_guard lock(mutex_);
    auto& [group, joined] = forming_[{split, color}];
    if (!group) group = std::make_shared<Group>(static_cast<std::size_t>(members));
    auto result = group;
    if (++joined == members) forming_.erase({split, color});
    return result;
  }

  void abort(const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (aborted_.load()) return;
      reason_ = reason;
      aborted_.store(true);  // sequentially consistent: see LocalCommunicator's destructor
    }
    changed_.notify_all();
  }
  bool aborted() const { return aborted_.load(); }
  [[noreturn]] void throw_peer_lost() {
    const std::lock_guard lock(mutex_);
    throw PeerLost(reason_);
  }

 private:
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    changed_.wait(lock, [&] { return condition() || aborted_.load(); });
    if (!condition()) throw PeerLost(reason_);  // an exchange that all ranks have joined still completes
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<std::byte>> deposits_;
  int arrived_ = 0, leaving_ = 0;
  std::uint64_t generation_ = 0;
  std::map<std::pair<std::uint64_t, int>, std::pair<std::shared_ptr<Group>, int>> forming_;
  std::atomic<bool> aborted_{false};
  std::string reason_;
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<Shared> shared, std::shared_ptr<Group> group, int rank)
      : shared_(std::move(shared)),
        group_(std::move(group)),
        rank_(rank),
        copied_(group_->size()),
        sources_(group_->size()) {}

  // An exception is unwinding this rank, and its buffers are destroyed next: stops the others, and waits until none
  // reads. A reader sets `reading` before it loads `aborted`; this destructor sets `aborted` before it loads `reading`.
  // So at least one of the two sees the other.
  ~LocalCommunicator() override {
    if (phase_ == Phase::idle) return;
    shared_->abort(fmt::format("rank {} of a group left during {}", rank_, describe(call_)));
    for (const Member& member : *group_) {
      for (Backoff backoff; member.reading.load();) backoff.pause();
    }
  }
  LocalCommunicator(const LocalCommunicator&) = delete;
  LocalCommunicator& operator=(const LocalCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->size()); }

  void start(const CollectiveCall& call) override {
    if (phase_ != Phase::idle)
      throw std::logic_error(fmt::format("{} started during {}", describe(call), describe(call_)));
    check_call(call, size());
    if (size() == 1 && call.kind == CollectiveKind::all_reduce) return;  // already its own sum
    call_ = call;
    position_ = 0;
    phase_ = Phase::meeting;
    copied_.assign(copied_.size(), 0);
    own().call = call;
    own().published.store(++sequence_, std::memory_order_release);
  }

  bool progress() override {
    if (phase_ == Phase::idle) return true;
    const Reading reading(own());
    if (shared_->aborted()) shared_->throw_peer_lost();
    std::int64_t budget = kBytesPerCall;
    while (advance(budget)) {
    }
    return phase_ == Phase::idle;
  }

 private:
  enum class Phase : std::uint8_t { idle, meeting, summing, copying, releasing };

  // Marks a member as reading others' buffers for as long as it lives.
  class Reading {
   public:
    explicit Reading(Member& member) : member_(member) { member_.reading.store(true); }
    ~Reading() { member_.reading.store(false, std::memory_order_release); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    Member& member_;
  };

  Member& own() { return (*group_)[static_cast<std::size_t>(rank_)]; }

  bool all_reached(std::atomic<std::uint64_t> Member::*counter) const {
    return std::ranges::all_of(
        *group_, [&](const Member& member) { return (member.*counter).load(std::memory_order_acquire) >= sequence_; });
  }

  // Does the next part of the work. False: nothing can be done now (blocked, out of budget, or complete).
  bool advance(std::int64_t& budget) {
    switch (phase_) {
      case Phase::idle:
        return false;
      case Phase::meeting:
        if (!all_reached(&Member::published)) return false;
        check_same_calls();
        phase_ = Phase::summing;
        return true;
      case Phase::summing:
        return sum(budget);
      case Phase::copying:
        return copy(budget);
      case Phase::releasing:
        if (!all_reached(&Member::done)) return false;
        phase_ = Phase::idle;
        return false;
    }
    return false;
  }

  void check_same_calls() const {
    for (const Member& member : *group_) {
      if (member.call.matches(call_)) continue;
      throw RuntimeFault(fmt::format("ranks disagree: rank {} of the group started {}, rank {} started {}", rank_,
                                     describe(call_), &member - group_->data(), describe(member.call)));
    }
  }

  bool sum(std::int64_t& budget) {
    const Slice slice = slice_of(call_, size(), rank_);
    if (call_.sums() && position_ < slice.count) {
      if (budget <= 0) return false;
      const std::int64_t element_bytes = call_.bytes_of(size());
      const std::int64_t count = std::min(slice.count - position_, std::max<std::int64_t>(1, budget / element_bytes));
      const std::int64_t first = slice.begin + position_;
      for (std::size_t r = 0; r < sources_.size(); ++r) sources_[r] = (*group_)[r].call.source_at(first);
      cpu::sum_in_rank_order(sources_, call_.out_at(call_.in_place() ? first : position_), count, call_.dtype);
      position_ += count;
      budget -= count * element_bytes;
      return true;
    }
    own().summed.store(sequence_, std::memory_order_release);
    position_ = 0;
    choose_peer();
    phase_ = Phase::copying;
    return true;
  }

  // Starts at the next rank, so that the members don't all read the same buffer at once.
  void choose_peer() {
    peer_ = -1;
    all_copied_ = true;
    for (int i = 1; i <= size(); ++i) {
      const int peer = (rank_ + i) % size();
      const auto index = static_cast<std::size_t>(peer);
      if (copied_[index] || !copies_from(peer)) continue;
      all_copied_ = false;
      if ((*group_)[index].summed.load(std::memory_order_acquire) < sequence_) continue;
      peer_ = peer;
      if (call_.kind == CollectiveKind::exchange_rows) choose_runs();
      return;
    }
  }

  bool copies_from(int peer) const {
    switch (call_.kind) {
      case CollectiveKind::reduce_scatter:
        return false;
      case CollectiveKind::all_reduce:
        return peer != rank_;
      case CollectiveKind::all_gather:
      case CollectiveKind::all_to_all:
      case CollectiveKind::exchange_rows:
        return true;
      case CollectiveKind::broadcast:
        return peer == call_.root && peer != rank_;
    }
    return false;
  }

  bool copy(std::int64_t& budget) {
    if (peer_ < 0) choose_peer();
    if (peer_ < 0) {
      if (!all_copied_) return false;
      own().done.store(sequence_, std::memory_order_release);
      phase_ = Phase::releasing;
      return true;
    }
    if (budget <= 0) return false;
    call_.kind == CollectiveKind::exchange_rows ? copy_rows(budget) : copy_slice(budget);
    return true;
  }

  void copy_slice(std::int64_t& budget) {
    const Slice slice =
        call_.kind == CollectiveKind::broadcast ? Slice{0, call_.count} : slice_of(call_, size(), peer_);
    const std::int64_t element_bytes = call_.bytes_of(1);
    const std::int64_t left =
        call_.parts > 1 && call_.count > 0 ? call_.count - position_ % call_.count : slice.count - position_;
    const std::int64_t count = std::min(left, std::max<std::int64_t>(1, budget / element_bytes));
    if (count > 0) copy_piece(slice, count);
    position_ += count;
    budget -= count * element_bytes;
    if (position_ == slice.count) leave_peer();
  }

  void leave_peer() {
    copied_[static_cast<std::size_t>(peer_)] = 1;
    position_ = 0;
    peer_ = -1;
  }

  void choose_runs() {
    runs_ = call_.inverse ? row_runs(call_, size(), rank_, peer_) : row_runs(call_, size(), peer_, rank_);
    run_ = 0;
  }

  // Rows of the peer's runs, as many as the budget allows.
  void copy_rows(std::int64_t& budget) {
    const CollectiveCall& other = (*group_)[static_cast<std::size_t>(peer_)].call;
    const std::int64_t row_bytes = std::max<std::int64_t>(1, call_.bytes_of(call_.count));
    for (; run_ < runs_.size() && budget > 0; ++run_, position_ = 0) {
      const RowRun& run = runs_[run_];
      const std::int64_t count = std::min(run.rows - position_, std::max<std::int64_t>(1, budget / row_bytes));
      const std::int64_t given = run.given + position_, held = run.held + position_;
      const std::byte* const from = other.in_at((call_.inverse ? held : given) * call_.count);
      std::byte* const to = call_.out_at((call_.inverse ? given : held) * call_.count);
      if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(call_.bytes_of(count * call_.count)));
      budget -= count * row_bytes;
      position_ += count;
      if (position_ < run.rows) return;
    }
    if (run_ == runs_.size()) leave_peer();
  }

  // Elements [position, position + count) of the peer's slice, or of its parts for this rank.
  void copy_piece(const Slice& slice, std::int64_t count) const {
    const CollectiveCall& other = (*group_)[static_cast<std::size_t>(peer_)].call;
    const std::byte* from = nullptr;
    std::byte* to = call_.out_at(slice.begin + position_);
    if (call_.kind == CollectiveKind::all_to_all) {
      const std::int64_t part = position_ / call_.count, within = position_ % call_.count;
      from = other.in_at(part_for(call_, size(), rank_, part) + within);
      to = call_.out_at(part_from(call_, size(), peer_, part) + within);
    } else {
      from = call_.kind == CollectiveKind::all_gather ? other.in_at(position_) : other.out_at(slice.begin + position_);
    }
    if (from != to) std::memcpy(to, from, static_cast<std::size_t>(call_.bytes_of(count)));
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Group> group_;
  int rank_;
  CollectiveCall call_{};
  std::uint64_t sequence_ = 0;  // collectives started
  Phase phase_ = Phase::idle;
  std::int64_t position_ = 0;  // elements of the current slice, or rows of the run, that are summed or copied
  int peer_ = -1;              // whose slice is being copied; -1: none is ready
  bool all_copied_ = false;
  std::vector<char> copied_;
  std::vector<RowRun> runs_;  // of the peer whose rows are being copied
  std::size_t run_ = 0;       // the current one
  std::vector<const void*> sources_;
};

class LocalWorld final : public World {
 public:
  LocalWorld(std::shared_ptr<Shared> shared, int rank) : shared_(std::move(shared)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return shared_->size(); }
  std::string name() const override { return "local"; }
  int ranks_on_node() const override { return size(); }
  int rank_on_node() const override { return rank_; }

  std::unique_ptr<Communicator> split(int color) override {
    const std::uint64_t split = splits_++;
    const auto colors = all_gather(static_cast<std::uint64_t>(static_cast<std::int64_t>(color)));
    const std::uint64_t own_color = colors[static_cast<std::size_t>(rank_)];
    const auto members = static_cast<int>(std::ranges::count(colors, own_color));
    const auto rank_in_group = static_cast<int>(std::count(colors.begin(), colors.begin() + rank_, own_color));
    return std::make_unique<LocalCommunicator>(shared_, shared_->join_group(split, color, members), rank_in_group);
  }

  void barrier() override { shared_->exchange(rank_, {}); }

  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return shared_->exchange(rank_, bytes);
  }

  void expect_peers() override {
    if (shared_->aborted()) shared_->throw_peer_lost();
  }

  void abort(const std::string& reason, int) override { shared_->abort(reason); }

 private:
  std::shared_ptr<Shared> shared_;
  int rank_;
  std::uint64_t splits_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<World>> make_local_worlds(int ranks) {
  if (ranks < 1) throw std::logic_error(fmt::format("make_local_worlds: {} ranks", ranks));
  const auto shared = std::make_shared<Shared>(ranks);
  std::vector<std::unique_ptr<World>> worlds;
  for (int r = 0; r < ranks; ++r) worlds.push_back(std::make_unique<LocalWorld>(shared, r));
  return worlds;
}

}  // namespace weft::comm
