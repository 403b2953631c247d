// The time to write and to read a trace, and the memory needed.
//
//   bench_trace write FILE [EVENTS [TASKS]]   writes a trace; default: 1000000 events of 20000 tasks on 2 ranks
//   bench_trace read FILE                     reads it in a process of its own, to measure the reader's peak memory
//
// The trace is synthetic: layers of four computations and two collectives, three edges a task. A FILE whose name ends
// in .gz is compressed.
#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>
#include <string>

#include "base/files/input_file.h"
#include "bench/program.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/recorded_file.h"

namespace weft::bench {
namespace {

plan::Recording made_by_hand(std::int64_t events, std::uint32_t tasks) {
  plan::Recording recording{.policy = "by hand", .world = 2, .grid = graph::Grid{.data = 2}, .state_bytes = 1 << 30};
  recording.streams = {{"compute0", true}, {"x", false}, {"data", false}};
  for (std::uint32_t i = 0; i < tasks; ++i) {
    const std::uint32_t place = i % 6, stream = place < 4 ? 0 : place - 3;
    plan::RecordedTask task{.name = fmt::format("mb0.L{}.part{}.fwd", i / 6, place),
                            .kind = stream == 0 ? "gemm" : "all_reduce",
                            .style = stream == 0 ? graph::KindClass::gemm : graph::KindClass::all_reduce,
                            .stream = stream,
                            .layer = static_cast<std::int32_t>(i / 6),
                            .micro_batch = 0,
                            .flops = stream == 0 ? 2.5e9 : 0,
                            .bytes = 1e6 + i,
                            .network_bytes = stream == 0 ? 0 : 5e5,
                            .allocates = 1 << 20,
                            .frees = 1 << 20,
                            .channel = stream == 0   ? ""
                                       : stream == 1 ? "x"
                                                     : "data",
                            .group_size = stream == 0 ? 0 : 2,
                            .reason = "program order: computations in turn, collectives right after their inputs"};
    recording.tasks.push_back(std::move(task));
    for (const std::uint32_t back : {1U, 4U, 7U}) {
      if (back <= i) recording.edges.push_back({.from = i - back, .to = i});
    }
  }
  const std::int64_t steps = std::max<std::int64_t>(1, events / tasks / 2);
  constexpr std::int64_t kLength = 12'345;
  for (int rank = 0; rank < 2; ++rank) {
    plan::RecordedRank& of = recording.ranks.emplace_back(plan::RecordedRank{.rank = rank, .steps = {}});
    std::int64_t now = 1'000'000'000'000;
    for (std::int64_t i = 0; i < steps; ++i) {
      plan::RecordedStep& step =
          of.steps.emplace_back(plan::RecordedStep{.step = i, .begin = now, .end = now, .times = {}});
      for (std::uint32_t task = 0; task < tasks; ++task, now += kLength) step.times.push_back({now, now + kLength});
      step.end = now;
    }
  }
  return recording;
}

/// "2.10 s (1.95 s of a core); peak memory 28 MiB". If others use the machine, the core's time is the relevant one.
std::string used(const Stopwatch& watch) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return fmt::format("{:.2f} s ({:.2f} s of a core); peak memory {:.0f} MiB", watch.seconds(),
                     seconds(usage.ru_utime) + seconds(usage.ru_stime), static_cast<double>(usage.ru_maxrss) / 1024);
}

std::size_t events_of(const plan::Recording& recording) {
  std::size_t events = 0;
  for (const plan::RecordedRank& rank : recording.ranks) events += rank.steps.size() * recording.tasks.size();
  return events;
}

void write(const std::string& path, std::int64_t events, std::uint32_t tasks) {
  const plan::Recording recording = made_by_hand(events, tasks);
  std::ofstream file(path, std::ios::binary);
  std::uint64_t bytes = 0;
  const TextSink to_file = [&](std::string_view text) {
    file << text;
    bytes += text.size();
  };
  const Stopwatch watch;
  if (path.ends_with(".gz")) {
    GzipPacker packer(to_file);
    inspect::write_chrome_trace(recording, {}, [&](std::string_view text) { packer.write(text); });
    packer.finish();
  } else {
    inspect::write_chrome_trace(recording, {}, to_file);
  }
  fmt::print("wrote {} tasks' events, {} MB, in {}\n", events_of(recording), bytes / 1'000'000, used(watch));
}

void read(const std::string& path) {
  const Stopwatch watch;
  const plan::Recording recording = inspect::read_recording(path);
  fmt::print("read {} tasks' events in {}\n", events_of(recording), used(watch));
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  std::string file;
  std::int64_t events = 1'000'000;
  std::uint32_t tasks = 20'000;
  CLI::App app("the time to write and to read a trace", "bench_trace");
  app.require_subcommand(1);
  CLI::App* const write = app.add_subcommand("write", "writes a trace");
  CLI::App* const read = app.add_subcommand("read", "reads it");
  for (CLI::App* each : {write, read}) each->add_option("FILE", file, "the trace")->required();
  write->add_option("EVENTS", events, "of two ranks")->check(CLI::PositiveNumber)->capture_default_str();
  write->add_option("TASKS", tasks, "of a step")->check(CLI::Range(1, 10'000'000))->capture_default_str();
  return weft::bench::main_of(app, argc, argv, [&] {
    write->parsed() ? weft::bench::write(file, events, tasks) : weft::bench::read(file);
    return 0;
  });
}
