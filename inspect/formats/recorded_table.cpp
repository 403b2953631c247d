#include "inspect/formats/recorded_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text/hex.h"
#include "graph/groups.h"
#include "inspect/drawing/colors.h"
#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/json_members.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 53;  // of one task
constexpr std::int64_t kMostSum = std::int64_t{1} << 62;
constexpr std::size_t kMostStreams = 900;  // their rows stand before the row of steps

/// A list of up to N integers, each from 0 to its `most`. Returns how many there are.
template <std::size_t N>
std::size_t read_numbers(JsonPull& in, std::array<std::int64_t, N>& numbers, const std::array<std::int64_t, N>& most,
                         std::string_view too_many) {
  std::size_t count = 0;
  read_list(in, [&] {
    if (count == N) in.refuse(too_many, fmt::format("{} at most", N));
    numbers[count] = in.integer(0, most[count]);
    ++count;
  });
  return count;
}

class TableReader {
 public:
  TableReader(JsonPull& in, plan::Recording& out) : in_(in), out_(out) {}

  RecordedTable read() {
    bool versioned = false, origin = false, streams = false, tasks = false, timed_tasks = false;
    const bool at_once = true;
    const auto after = [&](const bool& ready, std::string_view name, auto read) {
      return JsonMember{name, [&, name, read] {
                          if (!versioned)
                            in_.refuse(fmt::format("\"{}\" before \"version\"", name), "the version first");
                          if (!ready) {
                            in_.refuse(fmt::format("\"{}\" too early", name),
                                       "origin_ns, streams, tasks, edges, ranks in order");
                          }
                          read();
                        }};
    };
    read_object(in_, 10, JsonMember{"version", [&] { read_version(), versioned = true; }},
                after(at_once, "policy", [&] { out_.policy = in_.kept_text(); }),
                after(at_once, "world", [&] { out_.world = static_cast<int>(in_.integer(1, kMostRecordedRanks)); }),
                after(at_once, "state_bytes", [&] { out_.state_bytes = in_.integer(0, kMostSum); }),
                after(at_once, "plan_fingerprint", [&] { read_fingerprint(); }),
                after(at_once, "origin_ns",
                      [&] { table_.origin = in_.integer(INT64_MIN, INT64_MAX), origin = true, timed_tasks = tasks; }),
                after(at_once, "streams", [&] { read_list(in_, [&] { read_stream(); }), streams = true; }),
                after(streams, "tasks", [&] { read_tasks(), tasks = true, timed_tasks = origin; }),
                after(tasks, "edges", [&] { read_list(in_, [&] { read_edge(); }); }),
                after(timed_tasks, "ranks", [&] { read_list(in_, [&] { read_rank(); }); }),
                after(at_once, "grid", [&] { read_grid(); }));
    return std::move(table_);
  }

 private:
  void read_version() {
    const std::int64_t found = in_.integer(0, INT64_MAX);
    if (found != kTraceVersion) {
      in_.refuse(fmt::format("a trace of version {}", found), fmt::format("version {}", kTraceVersion));
    }
  }

  void read_fingerprint() {
    const std::string text = in_.kept_text();
    const auto fingerprint = parse_hex_fingerprint(text);
    if (!fingerprint) in_.refuse(fmt::format("the fingerprint \"{}\"", text), kHexFingerprint);
    out_.plan_fingerprint = *fingerprint;
  }

  void read_grid() {
    graph::Grid grid;
    std::int64_t ranks = 1;
    const auto size = [&](graph::Axis axis) {
      return [&, axis] {
        // Of at most kMostRecordedRanks each, so that the product fits.
        grid.on(axis) = in_.integer(1, kMostRecordedRanks);
        if ((ranks *= grid.on(axis)) > kMostRecordedRanks) in_.refuse("a grid of more than 1048576 ranks", "fewer");
      };
    };
    read_object(in_, 5, JsonMember{"x", size(graph::Axis::x)}, JsonMember{"y", size(graph::Axis::y)},
                JsonMember{"z", size(graph::Axis::z)}, JsonMember{"data", size(graph::Axis::data)},
                JsonMember{"order", [&] { read_order(grid); }}, JsonMember{"pipe", size(graph::Axis::pipe)});
    out_.grid = grid;
  }

  void read_order(graph::Grid& grid) {
    std::size_t at = 0;
    read_list(in_, [&] {
      const graph::Axis axis = read_name(in_, {graph::Axis::x, graph::Axis::y, graph::Axis::z, graph::Axis::data});
      const auto known = grid.order.begin() + static_cast<std::ptrdiff_t>(std::min(at, grid.order.size()));
      if (at >= grid.order.size() || std::find(grid.order.begin(), known, axis) != known) {
        in_.refuse("an axis that stands twice", "each axis once");
      }
      grid.order[at++] = axis;
    });
    if (at != grid.order.size()) in_.refuse("an order of fewer than four axes", "each axis once");
  }

  void read_stream() {
    if (out_.streams.size() == kMostStreams) in_.refuse("more than 900 streams", "fewer");
    plan::RecordedStream& stream = out_.streams.emplace_back();
    read_object(in_, 2, JsonMember{"name", [&] { stream.name = in_.kept_text(); }},
                JsonMember{"compute", [&] { stream.compute = in_.boolean(); }},
                JsonMember{"local", [&] { stream.local = in_.boolean(); }});
  }

  void read_tasks() {
    read_list(in_, [&] {
      if (out_.tasks.size() == UINT32_MAX) in_.refuse("more than 4294967295 tasks", "fewer");
      out_.tasks.push_back(read_task());
    });
    table_.task_by_name.reserve(out_.tasks.size());
    for (std::size_t i = 0; i < out_.tasks.size(); ++i) {
      if (!table_.task_by_name.emplace(out_.tasks[i].name, static_cast<std::uint32_t>(i)).second) {
        in_.refuse(fmt::format("two tasks are called '{}'", out_.tasks[i].name), "each name once");
      }
    }
  }

  plan::RecordedTask read_task() {
    if (out_.streams.empty()) in_.refuse("tasks without streams", "a stream at least");
    plan::RecordedTask task;
    const auto last_stream = static_cast<std::int64_t>(out_.streams.size()) - 1;
    const auto text = [&](std::string& of) { return [&] { of = in_.kept_text(); }; };
    const auto index = [&](std::int32_t& of) {
      return [&] { of = static_cast<std::int32_t>(in_.integer(-1, INT32_MAX)); };
    };
    const auto work = [&](double& of) { return [&] { of = in_.number(); }; };
    read_object(
        in_, 12, JsonMember{"name", text(task.name)}, JsonMember{"kind", text(task.kind)},
        JsonMember{"style", [&] { task.style = read_style(); }},
        JsonMember{"stream", [&] { task.stream = static_cast<std::uint32_t>(in_.integer(0, last_stream)); }},
        JsonMember{"phase",
                   [&] {
                     task.phase = read_name(in_, {graph::Phase::forward, graph::Phase::backward, graph::Phase::update});
                   }},
        JsonMember{"layer", index(task.layer)}, JsonMember{"micro_batch", index(task.micro_batch)},
        JsonMember{"flops", work(task.flops)}, JsonMember{"bytes", work(task.bytes)},
        JsonMember{"network_bytes", work(task.network_bytes)},
        JsonMember{"allocates", [&] { add_bytes(task.allocates, allocated_); }},
        JsonMember{"frees", [&] { add_bytes(task.frees, freed_); }}, JsonMember{"channel", text(task.channel)},
        JsonMember{"group_size", [&] { task.group_size = in_.integer(0, kMostRecordedRanks); }},
        JsonMember{"reason", text(task.reason)});
    return task;
  }

  graph::KindClass read_style() {
    const std::string_view found = in_.text();
    for (const KindStyle& known : kKindStyles) {
      if (known.name == found) return known.kind;
    }
    in_.refuse(fmt::format("found \"{}\"", found), "a kind as legends name it: GEMM, all-reduce, …");
  }

  // Curves add them up.
  void add_bytes(std::int64_t& bytes, std::int64_t& sum) {
    bytes = in_.integer(0, kMostBytes);
    if ((sum += bytes) > kMostSum) in_.refuse("more scratch bytes than any machine has", "fewer");
  }

  void read_edge() {
    const std::int64_t last = static_cast<std::int64_t>(out_.tasks.size()) - 1;
    std::array<std::int64_t, 5> numbers{};  // from, to, reason, distance, kind
    const std::size_t count =
        read_numbers(in_, numbers, {last, last, static_cast<std::int64_t>(graph::EdgeReason::recorded_order), 1, 1},
                     "an edge of more than five numbers");
    const plan::RecordedEdge edge{.from = static_cast<std::uint32_t>(numbers[0]),
                                  .to = static_cast<std::uint32_t>(numbers[1]),
                                  .kind = static_cast<graph::EdgeKind>(numbers[4]),
                                  .reason = static_cast<graph::EdgeReason>(numbers[2]),
                                  .distance = static_cast<std::uint8_t>(numbers[3])};
    if (count < 2) in_.refuse("an edge of fewer than two numbers", "from and to");
    if (edge.distance == 0 && edge.from >= edge.to) {
      in_.refuse(fmt::format("an edge from '{}' to '{}', which stands before it or is the same",
                             out_.tasks[edge.from].name, out_.tasks[edge.to].name),
                 "edges along the order of tasks: with others they form a cycle");
    }
    out_.edges.push_back(edge);
  }

  void read_rank() {
    plan::RecordedRank& of = out_.ranks.emplace_back();
    read_object(in_, kAllMembers,
                JsonMember{"rank", [&] { of.rank = static_cast<int>(in_.integer(0, kMostRecordedRanks - 1)); }},
                JsonMember{"steps", [&] { read_list(in_, [&] { read_step(of.steps); }); }});
    if (out_.ranks.size() > 1 && of.rank <= out_.ranks[out_.ranks.size() - 2].rank) {
      in_.refuse(fmt::format("rank {} after rank {}", of.rank, out_.ranks[out_.ranks.size() - 2].rank),
                 "ranks that rise");
    }
  }

  void read_step(std::vector<plan::RecordedStep>& steps) {
    std::array<std::int64_t, 3> numbers{};
    const std::size_t count = read_numbers(in_, numbers, {kLatestRecorded, kLatestRecorded, kLatestRecorded},
                                           "a step of more than three numbers");
    plan::RecordedStep step{.step = numbers[0], .begin = 0, .end = 0, .times = {}};
    const bool fits = !__builtin_add_overflow(table_.origin, numbers[1], &step.begin) &&
                      !__builtin_add_overflow(table_.origin, numbers[2], &step.end);
    if (count != 3 || !fits || step.end < step.begin) {
      in_.refuse("a step that has no numbers, or ends before it begins", "step, begin and end in nanoseconds");
    }
    if (!steps.empty() && step.step <= steps.back().step) {
      in_.refuse(fmt::format("step {} after step {}", step.step, steps.back().step), "steps that rise");
    }
    steps.push_back(std::move(step));
  }

  JsonPull& in_;
  plan::Recording& out_;
  RecordedTable table_;
  std::int64_t allocated_ = 0, freed_ = 0;
};

}  // namespace

RecordedTable read_recorded_table(JsonPull& in, plan::Recording& out) {
  return TableReader(in, out).read();
}

}  // namespace weft::inspect
