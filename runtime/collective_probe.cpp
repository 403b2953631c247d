#include "runtime/collective_probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <vector>

#include "runtime/comm/backoff.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// Between two calls of progress(), as in the executor.
constexpr double kInterval = 100e-6;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Multiplies and adds in registers; its result has to be used.
[[gnu::noipa]] float compute(std::int64_t iterations) {
  using Vector [[gnu::vector_size(32)]] = float;
  std::array<Vector, 8> sums{};
  const Vector scale = sums[0] + 0.999F, offset = sums[0] + 0.001F;
  for (std::int64_t i = 0; i < iterations; ++i) {
    for (Vector& sum : sums) sum = sum * scale + offset;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  return total;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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
    constexpr std::int64_t kIterations = 5'000'000;
    const Clock::time_point begin = Clock::now();
    sink_ = sink_ + compute(kIterations);
    iterations_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(kInterval / since(begin) * kIterations));
  }

  template <class Progress>
  void compute_with(const Progress& progress) {
    bool done = false;
    for (std::int64_t i = 0; i < pieces_; ++i) {
      sink_ = sink_ + compute(iterations_);
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
  std::int64_t iterations_ = 0, pieces_ = 0;
  volatile float sink_ = 0;
};

}  // namespace

CollectiveTimes probe_collective(World& world, Communicator& group, const CollectiveCall& call, int rounds) {
  return Probe(world, group, call).measure(rounds);
}

}  // namespace weft
