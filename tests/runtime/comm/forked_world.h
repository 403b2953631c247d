// Ranks as forked processes of a test, whose World is shared memory: for libraries that know one rank a process. The
// test's process ends ranks that take too long, and tells the others when one has died.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/comm/backoff.h"
#include "runtime/comm/local.h"

namespace weft::testing {

/// How a rank ended.
struct RankEnd {
  enum class How : std::uint8_t { returned, failed, lost_a_peer, died, hung };
  How how = How::died;
  std::string why = {};             // the exception's text, or how the process ended
  std::vector<double> values = {};  // that the work returned
};
/// The work of one rank. The values that it returns reach the test.
using RankWork = std::function<std::vector<double>(comm::World&)>;

/// Memory that the processes share: all of it is mapped before they start.
struct SharedRank {
  static constexpr std::size_t kPiece = 64 << 10, kMostValues = 64, kMostText = 1000;

  alignas(64) std::atomic<std::uint64_t> arrived{0};  // the barriers that this rank has reached
  alignas(64) std::atomic<bool> lost{false};          // it gave up or died
  std::uint64_t bytes = 0;                            // of the exchange under way
  std::array<std::byte, kPiece> piece{};
  RankEnd::How how = RankEnd::How::died;
  std::size_t value_count = 0;
  std::array<double, kMostValues> values{};
  std::array<char, kMostText> why{};

  void end(RankEnd::How ending, const std::string& text) {
    how = ending;
    std::copy_n(text.data(), std::min(text.size(), kMostText - 1), why.data());
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

/// Makes no groups: transports of devices bring their own.
class ForkedWorld final : public comm::World {
 public:
  ForkedWorld(std::span<SharedRank> ranks, int rank) : ranks_(ranks), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string name() const override { return "forked"; }
  int ranks_on_node() const override { return size(); }
  int rank_on_node() const override { return rank_; }
  std::unique_ptr<comm::Communicator> split(int /*color*/) override {
    throw std::logic_error("forked ranks have no communicators");
  }

  void barrier() override {
    own().arrived.store(++barriers_, std::memory_order_release);
    for (const SharedRank& other : ranks_) {
      comm::Backoff backoff;
      while (other.arrived.load(std::memory_order_acquire) < barriers_) {
        expect_peers();
        backoff.pause();
      }
    }
  }
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    own().bytes = bytes.size();
    barrier();
    std::vector<std::vector<std::byte>> all;
    std::size_t longest = 1;  // so that a barrier follows the reading of sizes
    for (const SharedRank& each : ranks_) longest = std::max(longest, all.emplace_back(each.bytes).size());
    for (std::size_t begin = 0; begin < longest; begin += SharedRank::kPiece) {
      const auto length = [begin](std::size_t size) {
        return std::min(SharedRank::kPiece, size - std::min(size, begin));
      };
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(std::min(begin, bytes.size())), length(bytes.size()),
                  own().piece.begin());
      barrier();
      for (std::size_t r = 0; r < all.size(); ++r) {
        std::copy_n(ranks_[r].piece.begin(), length(all[r].size()), all[r].data() + std::min(begin, all[r].size()));
      }
      barrier();
    }
    return all;
  }

  void expect_peers() override {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (static_cast<int>(r) != rank_ && ranks_[r].lost.load())
        throw comm::PeerLost(fmt::format("rank {} is gone", r));
    }
  }
  void abort(const std::string& /*reason*/, int /*exit_code*/) override { own().lost = true; }

 private:
  SharedRank& own() { return ranks_[static_cast<std::size_t>(rank_)]; }

  std::span<SharedRank> ranks_;
  int rank_;
  std::uint64_t barriers_ = 0;
};

/// Runs the work on this rank and notes its end. Another rank hears of a failure.
inline void run_rank(comm::World& world, const RankWork& work, SharedRank& own) {
  try {
    const std::vector<double> values = work(world);
    own.value_count = std::min(values.size(), SharedRank::kMostValues);
    std::copy_n(values.begin(), own.value_count, own.values.begin());
    own.end(RankEnd::How::returned, "");
    return;
  } catch (const comm::PeerLost& error) {
    own.end(RankEnd::How::lost_a_peer, error.what());
  } catch (const std::exception& error) {
    own.end(RankEnd::How::failed, error.what());
  }
  world.abort(own.why.data(), 3);
}

inline RankEnd end_of(const SharedRank& rank) {
  return {rank.how, rank.why.data(), {rank.values.begin(), rank.values.begin() + static_cast<int>(rank.value_count)}};
}

/// The parent's view of the processes.
class ForkedRanks {
 public:
  ForkedRanks(int ranks, const RankWork& work) : bytes_(sizeof(SharedRank) * static_cast<std::size_t>(ranks)) {
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory for forked ranks");
    ranks_ = {static_cast<SharedRank*>(memory), static_cast<std::size_t>(ranks)};
    for (SharedRank& rank : ranks_) new (&rank) SharedRank();
    std::fflush(nullptr);  // a child would print it once more
    for (int rank = 0; rank < ranks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) run_child(rank, work);
      if (child < 0) throw std::runtime_error("a process can't be forked");
      children_.push_back(child);
    }
  }
  ~ForkedRanks() {
    for (const pid_t child : children_) end(child);
    ::munmap(ranks_.data(), bytes_);
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  /// Ends the processes that run after the limit.
  std::vector<RankEnd> wait(std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    std::vector<std::string> deaths(ranks_.size());
    const auto all_ended = [&] { return std::ranges::count(children_, 0) == std::ssize(children_); };
    while (!all_ended() && std::chrono::steady_clock::now() < deadline) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) deaths[r] += take_end(r);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::vector<RankEnd> ends;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankEnd& found = ends.emplace_back(end_of(ranks_[r]));
      if (children_[r] != 0) found = {RankEnd::How::hung, "it ran on at the time limit"};
      if (!deaths[r].empty()) found = {RankEnd::How::died, deaths[r]};
      end(std::exchange(children_[r], 0));
    }
    return ends;
  }

 private:
  [[noreturn]] void run_child(int rank, const RankWork& work) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    SharedRank& own = ranks_[static_cast<std::size_t>(rank)];
    ForkedWorld world(ranks_, rank);
    run_rank(world, work, own);
    if (::testing::Test::HasFailure()) own.end(RankEnd::How::failed, "an expectation failed");
    std::fflush(nullptr);
    ::_exit(0);
  }

  // If the process has ended otherwise than by run_child(): how.
  std::string take_end(std::size_t rank) {
    int status = 0;
    if (children_[rank] == 0 || ::waitpid(children_[rank], &status, WNOHANG) != children_[rank]) return "";
    children_[rank] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    ranks_[rank].lost = true;
    return WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                             : fmt::format("signal {}", WTERMSIG(status));
  }

  static void end(pid_t child) {
    if (child == 0) return;
    ::kill(child, SIGKILL);
    for (int tries = 0; tries < 1000 && ::waitpid(child, nullptr, WNOHANG) == 0; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::size_t bytes_;
  std::span<SharedRank> ranks_;
  std::vector<pid_t> children_;  // 0: ended
};

/// By rank. The calling process must have no threads, and nothing that a child can't use, such as an open GPU.
inline std::vector<RankEnd> run_forked(int ranks, std::chrono::milliseconds limit, const RankWork& work) {
  return ForkedRanks(ranks, work).wait(limit);
}

/// The same with threads of this process in place of processes, and without a limit.
inline std::vector<RankEnd> run_threads(int ranks, const RankWork& work) {
  const auto worlds = comm::make_local_worlds(ranks);
  std::vector<SharedRank> shared(worlds.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < worlds.size(); ++r) {
      threads.emplace_back([&, r] { run_rank(*worlds[r], work, shared[r]); });
    }
  }
  std::vector<RankEnd> ends;
  for (const SharedRank& each : shared) ends.push_back(end_of(each));
  return ends;
}

}  // namespace weft::testing
