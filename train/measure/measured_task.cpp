#include "train/measure/measured_task.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/median.h"

namespace weft::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostCalls = 1e5;  // in a repeat

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Memory that was never written is one page of zeros, which would always be in the cache.
void fill(const cpu::Matrix& matrix) {
  std::uint32_t state = 12345;
  for (std::int64_t i = 0; i < matrix.rows * matrix.cols; ++i) {
    state = state * 1664525U + 1013904223U;
    const float value = (static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F) * 0.1F;
    if (matrix.dtype == DType::bf16) {
      matrix.b16()[i] = bf16(value);
    } else {
      matrix.f32()[i] = value;
    }
  }
}

}  // namespace

MeasuredTask::MeasuredTask(const graph::Operation& operation, const std::vector<Shape>& shapes, cpu::Workers& workers)
    : task_(operation, operands(shapes)), workers_(workers) {
  workers_.reserve(task_.scratch());
}

std::vector<cpu::Matrix> MeasuredTask::operands(const std::vector<Shape>& shapes) {
  std::vector<cpu::Matrix> matrices;
  for (const Shape& shape : shapes) {
    const auto bytes = shape.rows * shape.cols * static_cast<std::int64_t>(size_of(shape.dtype));
    matrices.push_back({memory_.emplace_back(bytes).data(), shape.rows, shape.cols, shape.cols, shape.dtype});
    fill(matrices.back());
  }
  return matrices;
}

RankClock::Times RankClock::over_ranks(double value) {
  Times times;
  const std::vector<std::uint64_t> all = world_.all_gather(std::bit_cast<std::uint64_t>(value));
  for (const std::uint64_t bits : all) {
    const auto of_rank = std::bit_cast<double>(bits);
    times.mean += of_rank / static_cast<double>(all.size());
    times.greatest = std::max(times.greatest, of_rank);
  }
  return times;
}

RankClock::Times RankClock::measure(const std::function<void()>& function) {
  function();  // touches its memory, and opens connections
  world_.barrier();
  Clock::time_point begin = Clock::now();
  function();
  // All ranks make the same number of calls.
  const double once = std::max(over_ranks(since(begin)).greatest, 1e-9);
  const auto calls = static_cast<std::int64_t>(std::clamp(least_seconds_ / once, 1.0, kMostCalls));
  std::vector<double> means, greatest;
  for (int repeat = 0; repeat < repeats_; ++repeat) {
    world_.barrier();
    begin = Clock::now();
    for (std::int64_t call = 0; call < calls; ++call) function();
    const Times times = over_ranks(since(begin) / static_cast<double>(calls));
    means.push_back(times.mean);
    greatest.push_back(times.greatest);
  }
  return {median(means), median(greatest)};
}

double RankClock::seconds(const std::function<void()>& function) {
  return measure(function).mean;
}

double RankClock::slowest_seconds(const std::function<void()>& function) {
  return measure(function).greatest;
}

}  // namespace weft::train
