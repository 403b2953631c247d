#include "inspect/formats/perfetto_trace.h"

#include <fmt/format.h>

#include <concepts>
#include <utility>
#include <vector>

#include "base/text/name_table.h"
#include "inspect/formats/protobuf.h"
#include "inspect/formats/viewer_rows.h"

namespace weft::inspect {
namespace {

constexpr std::uint32_t kPacketOfTrace = 1;  // Trace.packet
constexpr std::uint64_t kSequence = 1;       // all packets come from one writer
constexpr std::uint64_t kTracksOfARank = 1024;

namespace packet {
constexpr std::uint32_t timestamp = 8, sequence = 10, track_event = 11, interned = 12, flags = 13, descriptor = 60,
                        first_on_sequence = 87;
constexpr std::uint64_t state_cleared = 1, needs_state = 2;
}  // namespace packet
namespace descriptor {
constexpr std::uint32_t uuid = 1, name = 2, parent = 5, counter = 8, child_ordering = 11, rank = 12;
constexpr std::uint64_t explicit_order = 3;
}  // namespace descriptor
namespace event {
constexpr std::uint32_t categories = 3, annotation = 4, type = 9, name = 10, track = 11, counter_value = 30, flows = 47,
                        ending_flows = 48;
constexpr std::uint64_t begin = 1, end = 2, counter = 4;
}  // namespace event
namespace annotation {
constexpr std::uint32_t name = 10, integer = 4, number = 5, text = 6;
}  // namespace annotation

/// A name with an integer, a number or a text.
template <class Value>
ProtoMessage annotated(std::string_view name, const Value& value) {
  ProtoMessage out;
  out.text(annotation::name, name);
  if constexpr (std::same_as<Value, std::int64_t>) return out.integer(annotation::integer, value);
  if constexpr (std::same_as<Value, double>) return out.number(annotation::number, value);
  if constexpr (std::convertible_to<Value, std::string_view>) return out.text(annotation::text, value);
}

/// A table of InternedData, whose numbers count from 1.
std::string interned(std::uint32_t field, const NameTable& names) {
  ProtoMessage table;
  for (std::uint32_t i = 0; i < names.size(); ++i) {
    ProtoMessage entry;
    table.message(field, entry.varint(1, i + 1).text(2, names.text(i)));
  }
  return std::string(table.bytes());
}

class PerfettoWriter {
 public:
  PerfettoWriter(const plan::Recording& recording, const TextSink& sink)
      : recording_(recording), origin_(first_begin(recording)), out_(sink) {}

  void write() {
    intern_names();
    waits_ = plan::waits_between_streams(recording_);
    for (std::size_t i = 0; i < recording_.ranks.size(); ++i) write_rank(recording_.ranks[i], i);
    out_.flush();
  }

 private:
  void put(ProtoMessage& body) {
    body.varint(packet::sequence, kSequence);
    ProtoMessage framed;
    framed.message(kPacketOfTrace, body);
    out_.add(framed.bytes());
  }

  // Names and the notes on tasks are written once, before all events.
  void intern_names() {
    constexpr std::uint32_t kCategories = 1, kEventNames = 2;
    NameTable kinds, names;
    for (const plan::RecordedTask& task : recording_.tasks) {
      kind_of_.push_back(kinds.number(task.kind) + 1);
      name_of_.push_back(names.number(task.name) + 1);
      said_.push_back(describe(task));
    }
    step_name_ = names.number("step") + 1;
    step_kind_ = kinds.number("step") + 1;
    ProtoMessage body;
    body.varint(packet::flags, packet::state_cleared).varint(packet::first_on_sequence, 1);
    body.text(packet::interned, interned(kCategories, kinds) + interned(kEventNames, names));
    put(body);
  }

  static ProtoMessage describe(const plan::RecordedTask& task) {
    ProtoMessage said;
    const auto say = [&](std::string_view name, const auto& value) {
      said.message(event::annotation, annotated(name, value));
    };
    say("phase", graph::to_string(task.phase));
    if (task.layer >= 0) say("layer", std::int64_t{task.layer});
    if (task.micro_batch >= 0) say("micro_batch", std::int64_t{task.micro_batch});
    if (task.flops > 0) say("flops", task.flops);
    say("bytes", task.bytes);
    if (!task.channel.empty()) {
      say("network_bytes", task.network_bytes);
      say("channel", task.channel);
      if (task.group_size > 0) say("group_size", task.group_size);
    }
    if (!task.reason.empty()) say("reason", task.reason);
    return said;
  }

  std::uint64_t track(std::size_t rank, std::uint64_t below) const { return 1 + rank * kTracksOfARank + below; }

  void describe_track(std::uint64_t uuid, std::string_view name, std::uint64_t parent, std::uint64_t place,
                      bool counter) {
    ProtoMessage track, body;
    track.varint(descriptor::uuid, uuid).text(descriptor::name, name);
    if (parent == 0) {
      track.varint(descriptor::child_ordering, descriptor::explicit_order);
    } else {
      track.varint(descriptor::parent, parent);
    }
    track.varint(descriptor::rank, place);
    if (counter) {
      constexpr std::uint32_t kUnit = 3;
      constexpr std::uint64_t kBytes = 3;
      ProtoMessage unit;
      track.message(descriptor::counter, unit.varint(kUnit, kBytes));
    }
    put(body.message(packet::descriptor, track));
  }

  void write_rank(const plan::RecordedRank& rank, std::size_t index) {
    const std::size_t streams = recording_.streams.size();
    const std::uint64_t root = track(index, 0), steps = track(index, 1), first = track(index, 2);
    const std::uint64_t memory = first + streams, in_flight = memory + 1;
    describe_track(root, fmt::format("rank {}", rank.rank), 0, index, false);
    describe_track(steps, "steps", root, 0, false);
    for (std::size_t i = 0; i < streams; ++i) describe_track(first + i, recording_.streams[i].name, root, i + 1, false);
    describe_track(memory, "scratch memory", root, streams + 1, true);
    describe_track(in_flight, "in flight", root, streams + 2, true);
    ViewerRows rows(recording_);
    std::vector<std::vector<plan::TaskTime>> shown;
    for (const plan::RecordedStep& step : rank.steps) shown.push_back(rows.place(step, origin_));
    ViewerRow row;
    for (std::size_t i = 0; i < rank.steps.size(); ++i) {
      const plan::RecordedStep& step = rank.steps[i];
      ProtoMessage said;
      said.message(event::annotation, annotated("step", step.step));
      slice(steps, row.place({step.begin - origin_, step.end - origin_}), step_kind_, step_name_, said);
      const bool goes_on = i + 1 < rank.steps.size() && step.step + 1 == rank.steps[i + 1].step;
      mark_arrows(shown[i], goes_on ? &shown[i + 1] : nullptr);
      for (std::uint32_t task = 0; task < recording_.tasks.size(); ++task) {
        ProtoMessage body = said_[task];
        for (const std::uint64_t id : leaving_[task]) body.fixed64(event::flows, id);
        for (const std::uint64_t id : arriving_[task]) body.fixed64(event::ending_flows, id);
        slice(first + recording_.tasks[task].stream, shown[i][task], kind_of_[task], name_of_[task], body);
      }
      counter(memory, plan::memory_curve(recording_, step));
      counter(in_flight, plan::in_flight_curve(recording_, step));
    }
  }

  // Arrows within a step, and arrows into the next one, whose heads wait for it.
  void mark_arrows(const std::vector<plan::TaskTime>& shown, const std::vector<plan::TaskTime>* next) {
    leaving_.assign(shown.size(), {});
    arriving_ = std::exchange(arriving_later_, {});
    arriving_.resize(shown.size());
    arriving_later_.resize(shown.size());
    for (const plan::RecordedWait& wait : waits_) {
      const std::vector<plan::TaskTime>* const heads = wait.distance == 0 ? &shown : next;
      if (heads == nullptr || !arrow_tail(shown[wait.from], (*heads)[wait.to])) continue;
      const std::uint64_t id = ++last_arrow_;
      leaving_[wait.from].push_back(id);
      (wait.distance == 0 ? arriving_ : arriving_later_)[wait.to].push_back(id);
    }
  }

  void put_event(std::int64_t time, const ProtoMessage& what) {
    ProtoMessage body;
    body.integer(packet::timestamp, time).varint(packet::flags, packet::needs_state).message(packet::track_event, what);
    put(body);
  }

  void slice(std::uint64_t track, const plan::TaskTime& time, std::uint64_t kind, std::uint64_t name,
             ProtoMessage begin) {
    begin.varint(event::type, event::begin).varint(event::track, track);
    put_event(time.begin, begin.varint(event::categories, kind).varint(event::name, name));
    ProtoMessage end;
    put_event(time.end, end.varint(event::type, event::end).varint(event::track, track));
  }

  void counter(std::uint64_t track, const std::vector<plan::MemoryPoint>& curve) {
    for (const plan::MemoryPoint& point : changes_of(curve)) {
      ProtoMessage value;
      value.varint(event::type, event::counter).varint(event::track, track);
      put_event(point.time - origin_, value.integer(event::counter_value, point.bytes));
    }
  }

  const plan::Recording& recording_;
  const std::int64_t origin_;
  TextWriter out_;
  std::vector<plan::RecordedWait> waits_;
  std::vector<std::uint64_t> kind_of_, name_of_;  // by task: interned
  std::vector<ProtoMessage> said_;                // by task: annotations
  std::uint64_t step_kind_ = 0, step_name_ = 0, last_arrow_ = 0;
  std::vector<std::vector<std::uint64_t>> leaving_, arriving_, arriving_later_;  // by task: arrows
};

}  // namespace

void write_perfetto_trace(const plan::Recording& recording, const TextSink& sink) {
  PerfettoWriter(recording, sink).write();
}

}  // namespace weft::inspect
