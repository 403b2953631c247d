#include "runtime/collective_probe.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "base/median.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/parallel.h"
#include "runtime/buffer.h"
#include "runtime/comm/backoff.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A compute thread looks at the network between chunks of its task once so much time has passed, as in the executor.
constexpr std::chrono::microseconds kPollInterval(100);

// Of the collectives in one run of the computation, at least about so much.
constexpr double kLeastSeconds = 40e-3;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A matrix product as tasks run it, for a millisecond or two: what a transport evicts from its caches, and how seldom
/// it lets the transport go on, are what they are in a step.
class Computation {
 public:
  explicit Computation(int threads)
      : workers_(threads), gemm_(kShape, {matrix(a_), matrix(b_), matrix(c_), std::nullopt, nullptr}) {
    workers_.reserve(gemm_.scratch());
    std::fill_n(matrix(a_).f32(), kSize * kSize, 0.5F);
    std::fill_n(matrix(b_).f32(), kSize * kSize, 0.5F);
  }

  /// `progress` is called between its chunks, until it returns true.
  template <class Progress>
  void run(std::int64_t times, const Progress& progress) {
    bool done = false;
    Clock::time_point last = Clock::now();
    workers_.set_progress_hook([&] {
      if (done || Clock::now() - last < kPollInterval) return;
      done = progress();
      last = Clock::now();
    });
    for (std::int64_t i = 0; i < times; ++i) gemm_.run(workers_);
    workers_.set_progress_hook({});
    for (Backoff backoff; !done; backoff.pause()) done = progress();
  }

  double seconds() {
    const Clock::time_point begin = Clock::now();
    gemm_.run(workers_);
    return since(begin);
  }

 private:
  static constexpr std::int64_t kSize = 512;
  static constexpr cpu::GemmShape kShape{kSize, kSize, kSize, false, true};

  static cpu::Matrix matrix(const Buffer& buffer) { return {buffer.data(), kSize, kSize, kSize, DType::f32}; }

  Buffer a_{kSize * kSize * 4}, b_{kSize * kSize * 4}, c_{kSize * kSize * 4};
  cpu::Workers workers_;
  cpu::PreparedGemm gemm_;
};

class Probe {
 public:
  Probe(World& world, Communicator& group, const CollectiveCall& call, int threads)
      : world_(world), group_(group), call_(call), computation_(threads) {}

  CollectiveTimes measure(int rounds) {
    computation_.seconds();                              // touches its memory
    from_barrier([&] { run_blocking(group_, call_); });  // the first one opens connections
    const double first = from_barrier([&] { run_blocking(group_, call_); });
    // Short ones several times, one behind the other, as in a step: what they take would drown in disturbances.
    const auto repeats = static_cast<int>(std::clamp(kLeastSeconds / first, 1.0, 64.0));
    products_ = 1 + static_cast<std::int64_t>(1.5 * first * repeats / slowest(computation_.seconds()));
    std::vector<double> alone, beside;
    // Whatever disturbs a run makes it longer: the least is what it takes.
    double computing = std::numeric_limits<double>::infinity(), least_together = computing;
    for (int round = 0; round < rounds; ++round) {
      double finished = 0;
      const double together = from_barrier([&] {
        const Clock::time_point begin = Clock::now();
        int ended = 0;
        group_.start(call_);
        computation_.run(products_, [&] {
          while (group_.progress()) {
            if (++ended == repeats) {
              finished = since(begin);
              return true;
            }
            group_.start(call_);
          }
          return false;
        });
      });
      beside.push_back(slowest(finished) / repeats);
      least_together = std::min(least_together, together);
      computing = std::min(computing, from_barrier([&] { computation_.run(products_, [] { return true; }); }));
      alone.push_back(from_barrier([&] { run_blocking(group_, call_); }));
    }
    return {median(alone) * 1e9, median(beside) * 1e9, std::max(0.0, least_together - computing) / repeats * 1e9};
  }

 private:
  double slowest(double value) {
    double greatest = value;
    for (const std::uint64_t bits : world_.all_gather(std::bit_cast<std::uint64_t>(value))) {
      greatest = std::max(greatest, std::bit_cast<double>(bits));
    }
    return greatest;
  }

  template <class Function>
  double from_barrier(const Function& function) {
    world_.barrier();
    const Clock::time_point begin = Clock::now();
    function();
    return slowest(since(begin));
  }

  World& world_;
  Communicator& group_;
  CollectiveCall call_;
  Computation computation_;
  std::int64_t products_ = 0;
};

}  // namespace

CollectiveTimes probe_collective(World& world, Communicator& group, const CollectiveCall& call, int threads,
                                 int rounds) {
  return Probe(world, group, call, threads).measure(rounds);
}

}  // namespace weft
