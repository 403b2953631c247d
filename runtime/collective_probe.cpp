#include "runtime/collective_probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include "base/median.h"
#include "runtime/comm/backoff.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Between two calls of progress(), as in the executor.
constexpr double kInterval = 100e-6;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Multiplies and adds over a working set that fits the core's own caches, as a blocked matrix product does, so that
/// what a transport evicts costs it something. Its result has to be used.
[[gnu::noinline]] float compute(std::span<const float> values, std::int64_t passes) {
  using Vector [[gnu::vector_size(32)]] = float;
  constexpr std::size_t kLanes = 8, kSums = 8;
  std::array<Vector, kSums> sums{};
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    for (std::size_t i = 0; i + kLanes * kSums <= values.size(); i += kLanes * kSums) {
      for (std::size_t j = 0; j < kSums; ++j) {
        Vector value;
        std::memcpy(&value, values.data() + i + j * kLanes, sizeof value);
        for (int repeat = 0; repeat < 4; ++repeat) sums[j] = sums[j] * value + value;
      }
    }
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}

class Probe {
 public:
  Probe(World& world, Communicator& group, const CollectiveCall& call) : world_(world), group_(group), call_(call) {}

  CollectiveTimes measure(int rounds) {
    calibrate();
    from_barrier([&] { run_blocking(group_, call_); });  // the first one opens connections
    const double first = from_barrier([&] { run_blocking(group_, call_); });
    pieces_ = std::max<std::int64_t>(2, static_cast<std::int64_t>(1.5 * first / kInterval));
    std::vector<double> alone, beside, cpu;
    for (int round = 0; round < rounds; ++round) {
      const double computing = from_barrier([&] { compute_with([] { return true; }); });
      alone.push_back(from_barrier([&] { run_blocking(group_, call_); }));
      double finished = 0;
      const double together = from_barrier([&] {
        const Clock::time_point begin = Clock::now();
        group_.start(call_);
        compute_with([&] {
          const bool done = group_.progress();
          if (done) finished = since(begin);
          return done;
        });
      });
      beside.push_back(slowest(finished));
      cpu.push_back(std::max(0.0, together - computing));
    }
    return {median(alone) * 1e9, median(beside) * 1e9, median(cpu) * 1e9};
  }

 private:
  void calibrate() {
    constexpr std::int64_t kPasses = 300;
    sink_ = sink_ + compute(values_, kPasses);
    const Clock::time_point begin = Clock::now();
    sink_ = sink_ + compute(values_, kPasses);
    passes_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(kInterval / since(begin) * kPasses));
  }

  template <class Progress>
  void compute_with(const Progress& progress) {
    bool done = false;
    for (std::int64_t i = 0; i < pieces_; ++i) {
      sink_ = sink_ + compute(values_, passes_);
      if (!done) done = progress();
    }
    for (Backoff backoff; !done; backoff.pause()) done = progress();
  }

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
  const std::vector<float> values_ = std::vector<float>(std::size_t{1} << 16, 0.5F);  // 256 KB
  std::int64_t passes_ = 0, pieces_ = 0;
  volatile float sink_ = 0;
};

}  // namespace

CollectiveTimes probe_collective(World& world, Communicator& group, const CollectiveCall& call, int rounds) {
  return Probe(world, group, call).measure(rounds);
}

}  // namespace weft
