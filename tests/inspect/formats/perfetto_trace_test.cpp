// The binary trace, decoded again: tracks, slices that nest, arrows with two ends, counters.
#include "inspect/formats/perfetto_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "inspect/formats/protobuf.h"
#include "tests/runtime/protobuf_walker.h"
#include "tests/runtime/trace_sample.h"

namespace weft::inspect {
namespace {

using testing::all_of;
using testing::field_of;
using testing::fields_of;
using testing::ProtoField;
using testing_sample::sample_plan;
using testing_sample::sample_step;

TEST(ProtoMessage, WritesTheEncodingsOfTheStandard) {
  ProtoMessage inner, message;
  // The examples of protobuf.dev: 150 in field 1, "testing" in field 2.
  inner.varint(1, 150);
  EXPECT_EQ(inner.bytes(), std::string_view("\x08\x96\x01", 3));
  message.text(2, "testing").message(3, inner);
  EXPECT_EQ(message.bytes(), std::string_view("\x12\x07testing\x1a\x03\x08\x96\x01", 14));
  EXPECT_EQ(message.delimited(), "\x0e" + std::string(message.bytes()));
  ProtoMessage numbers;
  const std::vector<std::uint64_t> values = {3, 270, 86942};
  numbers.packed(6, values).packed(7, {}).integer(1, -2).fixed64(9, 0x0102030405060708).number(5, 1.0);
  EXPECT_EQ(testing::numbers_of(numbers.bytes(), 6), values);
  EXPECT_EQ(field_of(numbers.bytes(), 1).value, static_cast<std::uint64_t>(-2));
  EXPECT_EQ(field_of(numbers.bytes(), 9).value, 0x0102030405060708U);
  EXPECT_EQ(field_of(numbers.bytes(), 5).value, 0x3FF0000000000000U);
  EXPECT_TRUE(all_of(numbers.bytes(), 7).empty());
}

/// A viewer's reading of the packets.
struct Decoded {
  struct Track {
    std::string name;
    std::uint64_t parent = 0;
    bool counter = false;
  };
  struct Slice {
    std::string name, kind;
    std::uint64_t track = 0;
    std::int64_t begin = 0, end = -1;
    std::vector<std::uint64_t> leaving, arriving;
    std::map<std::string, std::string> said;
  };
  std::map<std::uint64_t, Track> tracks;
  std::vector<Slice> slices;
  std::map<std::uint64_t, std::map<std::int64_t, std::int64_t>> counters;  // by track and time

  explicit Decoded(const plan::Recording& recording) {
    std::string bytes;
    write_perfetto_trace(recording, [&](std::string_view piece) { bytes += piece; });
    bool first = true;
    for (const ProtoField& packet : fields_of(bytes)) {
      EXPECT_EQ(packet.field, 1U);
      EXPECT_NE(field_of(packet.bytes, 10).value, 0U) << "a packet of no sequence";
      EXPECT_EQ(field_of(packet.bytes, 13).value & 1, first ? 1U : 0U);
      if (std::exchange(first, false)) intern(field_of(packet.bytes, 12).bytes);
      if (const ProtoField track = field_of(packet.bytes, 60); track.field != 0) add_track(track.bytes);
      if (const ProtoField event = field_of(packet.bytes, 11); event.field != 0) {
        EXPECT_EQ(field_of(packet.bytes, 13).value, 2U) << "interned names need the state";
        add_event(static_cast<std::int64_t>(field_of(packet.bytes, 8).value), event.bytes);
      }
    }
    for (const auto& [track, open] : open_) EXPECT_TRUE(open.empty()) << tracks[track].name;
  }

 private:
  void intern(std::string_view data) {
    for (const ProtoField& entry : fields_of(data)) {
      names_[entry.field][field_of(entry.bytes, 1).value] = field_of(entry.bytes, 2).bytes;
    }
  }
  void add_track(std::string_view track) {
    const auto [at, fresh] = tracks.try_emplace(
        field_of(track, 1).value,
        Track{std::string(field_of(track, 2).bytes), field_of(track, 5).value, field_of(track, 8).field != 0});
    EXPECT_TRUE(fresh) << at->second.name;
    EXPECT_TRUE(at->second.parent == 0 || tracks.contains(at->second.parent)) << at->second.name;
  }
  void add_event(std::int64_t time, std::string_view event) {
    const std::uint64_t track = field_of(event, 11).value, type = field_of(event, 9).value;
    EXPECT_TRUE(tracks.contains(track));
    std::vector<std::size_t>& open = open_[track];
    if (type == 4) {
      EXPECT_TRUE(tracks[track].counter);
      counters[track][time] = static_cast<std::int64_t>(field_of(event, 30).value);
    } else if (type == 2) {
      ASSERT_FALSE(open.empty());
      slices[open.back()].end = time;
      open.pop_back();
    } else {
      EXPECT_TRUE(open.empty()) << "slices of a row neither nest nor cross";
      open.push_back(slices.size());
      Slice slice;
      slice.name = names_[2].at(field_of(event, 10).value), slice.kind = names_[1].at(field_of(event, 3).value);
      slice.track = track, slice.begin = time;
      slice.leaving = testing::numbers_of(event, 47), slice.arriving = testing::numbers_of(event, 48);
      for (const ProtoField& one : all_of(event, 4)) {
        const ProtoField text = field_of(one.bytes, 6), number = field_of(one.bytes, 4);
        slice.said[std::string(field_of(one.bytes, 10).bytes)] = text.field != 0     ? std::string(text.bytes)
                                                                 : number.field != 0 ? std::to_string(number.value)
                                                                                     : "a double";
      }
      slices.push_back(std::move(slice));
    }
  }

  std::map<std::uint32_t, std::map<std::uint64_t, std::string>> names_;  // by field of InternedData
  std::map<std::uint64_t, std::vector<std::size_t>> open_;
};

plan::Recording sample_recording(const std::vector<std::int64_t>& steps, int ranks = 1) {
  std::vector<plan::RankTrace> traced;
  for (int rank = 0; rank < ranks; ++rank) {
    plan::RankTrace& of = traced.emplace_back(plan::RankTrace{rank, {}});
    for (const std::int64_t step : steps) of.steps.push_back(sample_step(step, 1'000'000 + step * 1000 + rank, 10));
  }
  return plan::record(sample_plan(), traced, ranks);
}

TEST(PerfettoTrace, HasTheSlicesOfTheRecording) {
  const Decoded decoded(sample_recording({7, 8}, 2));
  std::map<std::string, std::multiset<std::pair<std::int64_t, std::int64_t>>> times;
  std::map<std::string, std::set<std::string>> tracks;
  for (const auto& slice : decoded.slices) {
    const auto& track = decoded.tracks.at(slice.track);
    times[slice.name].insert({slice.begin, slice.end});
    tracks[slice.name].insert(decoded.tracks.at(track.parent).name + "/" + track.name);
  }
  EXPECT_EQ(times.at("b"),
            (std::multiset<std::pair<std::int64_t, std::int64_t>>{{300, 500}, {301, 501}, {1300, 1500}, {1301, 1501}}));
  EXPECT_EQ(tracks.at("b"), (std::set<std::string>{"rank 0/compute1", "rank 1/compute1"}));
  EXPECT_EQ(tracks.at("r"), (std::set<std::string>{"rank 0/data", "rank 1/data"}));
  EXPECT_EQ(tracks.at("step"), (std::set<std::string>{"rank 0/steps", "rank 1/steps"}));
  const auto& first = decoded.slices.at(1);
  EXPECT_EQ(first.name, "mb0.L1.a \"<&>\"");
  EXPECT_EQ(first.kind, "gemm");
  EXPECT_EQ(first.said.at("reason"), "as early as possible");
  EXPECT_EQ(first.said.at("layer"), "1");
  EXPECT_EQ(decoded.slices.size(), 2 * 2 * 6U);
}

TEST(PerfettoTrace, EveryArrowHasTwoEndsAndGoesForward) {
  const Decoded decoded(sample_recording({3, 4, 9}));
  std::map<std::uint64_t, std::int64_t> leaves;
  for (const auto& slice : decoded.slices) {
    for (const std::uint64_t id : slice.leaving) EXPECT_TRUE(leaves.emplace(id, slice.begin).second);
  }
  std::size_t arrived = 0;
  for (const auto& slice : decoded.slices) {
    for (const std::uint64_t id : slice.arriving) {
      ASSERT_TRUE(leaves.contains(id));
      EXPECT_LE(leaves.at(id), slice.begin);
      ++arrived;
    }
  }
  // Three waits within each step, and one of step 4 for step 3; step 9's predecessor isn't there.
  EXPECT_EQ(arrived, 3 * 3 + 1U);
  EXPECT_EQ(leaves.size(), arrived);
}

TEST(PerfettoTrace, CountsMemoryAndBytesInFlight) {
  const plan::Recording recording = sample_recording({0});
  const Decoded decoded(recording);
  std::map<std::string, std::map<std::int64_t, std::int64_t>> counters;
  for (const auto& [track, values] : decoded.counters) counters[decoded.tracks.at(track).name] = values;
  // r [400, 700) and s [750, 1000) send 16 bytes each.
  EXPECT_EQ(counters.at("in flight"),
            (std::map<std::int64_t, std::int64_t>{{0, 0}, {400, 16}, {700, 0}, {750, 16}, {1000, 0}}));
  std::map<std::int64_t, std::int64_t> memory;
  std::int64_t shown = -1;
  for (const plan::MemoryPoint& point : plan::memory_curve(recording, recording.ranks[0].steps[0])) {
    if (point.bytes != shown) memory[point.time - 1'000'000] = shown = point.bytes;
  }
  EXPECT_EQ(counters.at("scratch memory"), memory);
}

TEST(PerfettoTrace, RefusesTimesBeforeTheirStep) {
  plan::Recording recording = sample_recording({0});
  recording.ranks[0].steps[0].times[0].begin -= 1;
  EXPECT_THROW(Decoded{recording}, std::logic_error);
}

}  // namespace
}  // namespace weft::inspect
