#include "inspect/formats/recorded_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "inspect/formats/chrome_trace.h"
#include "inspect/formats/json_members.h"

namespace weft::inspect {
namespace {

constexpr std::uint64_t kLeastEvent = 48;                     // bytes of text
constexpr std::uint64_t kMostTimes = std::uint64_t{1} << 27;  // 2 GiB
constexpr plan::TaskTime kNoTime{INT64_MAX, INT64_MIN};

class RecordedEvents {
 public:
  RecordedEvents(JsonPull& in, const RecordedTable& table, plan::Recording& out, std::uint64_t most_bytes)
      : in_(in), table_(table), out_(out), open_(std::min(most_bytes / kLeastEvent, kMostTimes)) {
    for (std::size_t i = 0; i < out.ranks.size(); ++i) {
      rank_index_.emplace(out.ranks[i].rank, i);
      missing_.emplace_back(out.ranks[i].steps.size(), out.tasks.size());
    }
  }

  void read() {
    read_list(in_, [&] { read_event(); });
    for (std::size_t rank = 0; rank < out_.ranks.size(); ++rank) {
      for (std::size_t i = 0; i < out_.ranks[rank].steps.size(); ++i) {
        if (missing_[rank][i] > 0) refuse_missing(out_.ranks[rank], out_.ranks[rank].steps[i]);
      }
    }
  }

 private:
  struct Event {
    bool slice = false, annotation = false;
    bool known = false;  // its name is a task's
    std::uint32_t task = 0;
    std::int64_t pid = 0, begin = 0, length = 0, step = -1, waited = 0, grown = 0;
  };

  void read_event() {
    Event event;
    std::string unknown;
    bool typed = false;
    // All kinds begin with "ph" as Weft writes them, and only slices matter.
    const auto of_slice = [&](auto read) { return [&, read] { typed && !event.slice ? in_.skip() : read(); }; };
    const auto seen =
        read_object(in_, 1, JsonMember{"ph", [&] { event.slice = in_.text() == "X", typed = true; }},
                    JsonMember{"name", of_slice([&] { find_task(in_.text(), event, unknown); })},
                    JsonMember{"cat", of_slice([&] { event.annotation = in_.text() == "user_annotation"; })},
                    JsonMember{"pid", of_slice([&] { event.pid = in_.integer(1, kMostRecordedRanks); })},
                    JsonMember{"ts", of_slice([&] { event.begin = in_.microseconds(); })},
                    JsonMember{"dur", of_slice([&] { event.length = in_.microseconds(); })},
                    JsonMember{"args", of_slice([&] { read_arguments(event); })});
    if (!event.slice || event.annotation) return;
    seen.require(in_, kAllMembers);
    if (!event.known) in_.refuse(fmt::format("a slice called '{}'", unknown), "the name of one of the file's tasks");
    put(event);
  }

  void find_task(std::string_view name, Event& event, std::string& unknown) {
    // Mostly the task after the last one: no look-up in a large table.
    const auto is = [&](std::size_t task) { return task < out_.tasks.size() && out_.tasks[task].name == name; };
    event.known = is(next_);
    event.task = static_cast<std::uint32_t>(next_);
    for (const std::string_view candidate :
         {name, name.starts_with(kKinetoCollective) ? name.substr(kKinetoCollective.size()) : name}) {
      if (event.known) break;
      const auto found = table_.task_by_name.find(candidate);
      event.known = found != table_.task_by_name.end();
      if (event.known) event.task = found->second;
    }
    if (!event.known) unknown = name;
  }

  void read_arguments(Event& event) {
    const auto number = [&](std::int64_t& of) { return [&] { of = in_.integer(0, kLatestRecorded); }; };
    read_object(in_, 0, JsonMember{"step", number(event.step)}, JsonMember{"waited_ns", number(event.waited)},
                JsonMember{"grown_ns", number(event.grown)});
  }

  void put(const Event& event) {
    const auto rank_at = rank_index_.find(static_cast<int>(event.pid - 1));
    if (rank_at == rank_index_.end()) {
      in_.refuse(fmt::format("an event of rank {}", event.pid - 1), "a rank that the file names");
    }
    plan::RecordedRank& rank = out_.ranks[rank_at->second];
    const auto step = std::ranges::lower_bound(rank.steps, event.step, {}, &plan::RecordedStep::step);
    if (step == rank.steps.end() || step->step != event.step) {
      in_.refuse(fmt::format("an event of step {} on rank {}", event.step, rank.rank), "a step that the file names");
    }
    if (step->times.empty()) {
      if (open_ < out_.tasks.size()) {
        in_.refuse("more tasks and steps than the file has room for events", "an event a task and step");
      }
      open_ -= out_.tasks.size();
      step->times.assign(out_.tasks.size(), kNoTime);
    }
    plan::TaskTime& time = step->times[event.task];
    const std::string& name = out_.tasks[event.task].name;
    if (time != kNoTime) {
      in_.refuse(fmt::format("task '{}' runs twice in step {} of rank {}", name, step->step, rank.rank), "once");
    }
    const bool fits = !__builtin_add_overflow(table_.origin, event.begin, &time.begin) &&
                      !__builtin_add_overflow(time.begin, event.length, &time.end) &&
                      !__builtin_sub_overflow(time.begin, event.waited, &time.begin) &&
                      !__builtin_sub_overflow(time.end, event.grown, &time.end);
    if (!fits || time.begin < step->begin || time.end < time.begin || time.end > step->end) {
      in_.refuse(fmt::format("task '{}' runs outside of step {} of rank {}", name, step->step, rank.rank),
                 "times within the step's");
    }
    --missing_[rank_at->second][static_cast<std::size_t>(step - rank.steps.begin())];
    next_ = event.task + 1 < out_.tasks.size() ? event.task + 1 : 0;
  }

  [[noreturn]] void refuse_missing(const plan::RecordedRank& rank, const plan::RecordedStep& step) const {
    const auto none = std::ranges::find(step.times, kNoTime);
    const auto first = step.times.empty() ? 0 : static_cast<std::size_t>(none - step.times.begin());
    in_.refuse(fmt::format("task '{}' doesn't run in step {} of rank {}", out_.tasks[first].name, step.step, rank.rank),
               "an event for each task, step and rank that the file names");
  }

  JsonPull& in_;
  const RecordedTable& table_;
  plan::Recording& out_;
  std::uint64_t open_;  // times that the rest of the file may hold
  std::unordered_map<int, std::size_t> rank_index_;
  std::vector<std::vector<std::size_t>> missing_;  // by rank and step: tasks without an event
  std::size_t next_ = 0;                           // the task that the next event is likely of
};

}  // namespace

void read_recorded_events(JsonPull& in, const RecordedTable& table, plan::Recording& out, std::uint64_t most_bytes) {
  RecordedEvents(in, table, out, most_bytes).read();
}

}  // namespace weft::inspect
