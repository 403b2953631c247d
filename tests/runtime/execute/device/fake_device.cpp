#include "tests/runtime/execute/device/fake_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"
#include "kernels/cpu/elementwise/reduce.h"
#include "kernels/cpu/non_finite.h"
#include "kernels/cpu/parallel.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/cpu/cpu_kernels.h"
#include "runtime/execute/device/device_plan.h"

namespace weft::testing {
namespace {

struct FakeTask final : execute::DeviceTask {
  std::string name;
  std::vector<execute::Touch> touches;
  std::function<void(cpu::Workers& workers)> run;
};

execute::Touch touch(const void* memory, std::int64_t bytes, bool writes) {
  return {{{}, std::bit_cast<std::intptr_t>(memory), 1, bytes, bytes}, writes};
}

// By stream, the number of its ticks that precede a moment. Tick t of stream s precedes every moment whose clock has at
// least t at s.
using VectorClock = std::vector<std::uint64_t>;

// Finds bytes that two pieces of work touch without an order between them. It has the accesses so far, except the ones
// that later accesses replace.
class AccessLog {
 public:
  struct Access {
    execute::Touch touch;
    std::size_t stream = 0;
    std::uint64_t tick = 0;  // on its stream
    std::string name;
  };

  // The name of an earlier access that conflicts with this one (they overlap, one of them writes) and isn't ordered
  // before it by `clock`; nothing if there is none.
  std::optional<std::string> add(const Access& access, const VectorClock& clock) {
    const graph::View& window = access.touch.window;
    if (window.elements() == 0) return std::nullopt;
    std::optional<std::string> conflict;
    for (std::int64_t page = window.offset / kPage; page <= (window.end() - 1) / kPage; ++page) {
      std::vector<Access>& known = pages_[page];
      std::erase_if(known, [&](const Access& earlier) {
        const auto [now, then] = execute::by_columns(window, earlier.touch.window);
        const bool ordered = earlier.stream < clock.size() && clock[earlier.stream] >= earlier.tick;
        const bool written = access.touch.writes || earlier.touch.writes;
        if (written && !ordered && graph::overlaps(now, then)) conflict = earlier.name;
        // A write replaces all earlier accesses that it covers; a read replaces earlier reads of its own stream.
        const bool replaced = access.touch.writes || (!written && earlier.stream == access.stream);
        return ordered && replaced && graph::covers(now, then);
      });
      known.push_back(access);
    }
    return conflict;
  }

 private:
  static constexpr std::int64_t kPage = 4096;  // accesses are kept by the pages that they touch

  std::map<std::int64_t, std::vector<Access>> pages_;
};

// An entry of a stream's queue.
struct Work {
  enum class Kind : std::uint8_t { run, record, wait, wait_value } kind = Kind::run;
  std::string name;
  std::vector<execute::Touch> touches;
  std::function<void()> body;
  std::size_t event = 0;
  std::uint64_t ticket = 0;  // of a record, and of the record that a wait waits for
  const std::atomic<std::uint32_t>* flag = nullptr;
  std::uint32_t value = 0;
  VectorClock host = {};  // the work that the host knew to be done when it enqueued this
};

struct Stream {
  std::string name;
  std::deque<Work> queue;
  VectorClock clock;
  bool capturing = false;
};

struct Event {
  bool timed = false;
  std::uint64_t recorded = 0;                       // tickets: the last record enqueued
  std::uint64_t passed = 0;                         // and the last one that ran
  std::map<std::uint64_t, VectorClock> clock = {};  // of each record, when it ran
  bool captured = false;                            // last recorded in a capture
  std::int64_t time = 0;
};

class FakeDeviceImpl final : public FakeDevice {
 public:
  explicit FakeDeviceImpl(const FakeDeviceOptions& options)
      : memory_bytes_(options.memory_bytes),
        scratch_bytes_(options.scratch_bytes),
        patience_(options.patience),
        look_(options.look),
        random_(options.seed) {}

  std::string name() const override { return "fake"; }
  std::uint64_t identity() const override { return reinterpret_cast<std::uintptr_t>(this); }
  execute::DeviceMemory memory() const override { return {memory_bytes_ - allocated_, memory_bytes_}; }

  std::byte* allocate(std::int64_t bytes) override {
    if (bytes > memory().free) {
      throw RuntimeFault(
          fmt::format("fake has no {} bytes left: {} of {} are free", bytes, memory().free, memory_bytes_));
    }
    allocated_ += bytes;
    return buffer(bytes);
  }
  std::byte* allocate_pinned(std::int64_t bytes) override { return buffer(bytes); }

  execute::DeviceStream add_stream(std::string name, execute::StreamPriority /*priority*/) override {
    streams_.push_back({std::move(name), {}, {}, false});
    for (Stream& stream : streams_) stream.clock.resize(streams_.size());
    return execute::DeviceStream(streams_.size() - 1);
  }

  execute::DeviceEvent add_event(bool timed) override {
    ++counts_.events;
    const std::lock_guard lock(events_mutex_);
    events_.push_back({.timed = timed});
    return execute::DeviceEvent(events_.size() - 1);
  }

  void record(execute::DeviceEvent event, execute::DeviceStream stream) override {
    const bool captured = capturing_ && at(stream).capturing && !events_[event.index()].timed;
    enqueue(stream, {Work::Kind::record, "record", {}, {}, event.index(), next_ticket(event.index())});
    if (captured) captured_events_.push_back(event.index());
    const std::lock_guard lock(events_mutex_);
    events_[event.index()].captured = captured;
  }

  void wait(execute::DeviceStream stream, execute::DeviceEvent event) override {
    const Event& awaited = events_[event.index()];
    if (awaited.recorded == 0)
      complain(fmt::format("stream {} waits for an event that was never recorded", at(stream).name));
    // A stream joins a capture by waiting for an event that a captured stream recorded.
    if (capturing_ && std::ranges::find(captured_events_, event.index()) != captured_events_.end() &&
        !at(stream).capturing) {
      at(stream).capturing = true;
      capture_members_.push_back(stream);
    }
    enqueue(stream, {Work::Kind::wait, "wait", {}, {}, event.index(), awaited.recorded});
  }

  void wait_value(execute::DeviceStream stream, const std::atomic<std::uint32_t>* flag, std::uint32_t value) override {
    if (capturing_ && at(stream).capturing) complain("a wait for a value inside of a capture");
    enqueue(stream, {Work::Kind::wait_value, "wait_value", {}, {}, 0, 0, flag, value});
  }

  void copy(execute::DeviceStream stream, void* to, const void* from, std::int64_t bytes) override {
    if (bytes == 0) return;
    enqueue(stream, {.name = "copy", .touches = {touch(from, bytes, false), touch(to, bytes, true)}, .body = [=] {
                       std::memmove(to, from, static_cast<std::size_t>(bytes));
                     }});
  }

  void sum(execute::DeviceStream stream, std::span<const void* const> sources, void* out, std::int64_t count,
           DType dtype) override {
    const std::int64_t bytes = count * static_cast<std::int64_t>(size_of(dtype));
    std::vector<execute::Touch> touches = {touch(out, bytes, true)};
    for (const void* source : sources) touches.push_back(touch(source, bytes, false));
    enqueue(stream, {.name = "sum",
                     .touches = std::move(touches),
                     .body = [=, kept = std::vector<const void*>(sources.begin(), sources.end())] {
                       cpu::sum_in_rank_order(kept, out, count, dtype);
                     }});
  }

  // Any row of the buffers may move.
  void move_rows(execute::DeviceStream stream, const kernels::RowMove& move, std::span<void* const> others) override {
    const std::int64_t given = move.rows * move.row_bytes, held = move.most * move.row_bytes;
    const std::int64_t of_other = move.segments ? held / move.ranks : move.holds ? given : held;
    std::vector<execute::Touch> touches = {
        touch(move.table, move.ranks * (move.experts + 1) * static_cast<std::int64_t>(sizeof *move.table), false),
        touch(move.own, move.holds ? held : given, move.collects)};
    for (const void* other : others) touches.push_back(touch(other, of_other, !move.collects));
    enqueue(stream, {.name = "move rows",
                     .touches = std::move(touches),
                     .body = [this, move, kept = std::vector<void*>(others.begin(), others.end())] {
                       for (std::int64_t peer = 0; peer < move.ranks; ++peer) {
                         move_rows_of(move, peer, static_cast<std::byte*>(kept[static_cast<std::size_t>(peer)]));
                       }
                     }});
  }

  std::int64_t scratch_bytes(const graph::Graph& /*graph*/, const graph::Task& /*task*/) override {
    return scratch_bytes_;
  }

  // Any kernel may use its stream's scratch.
  std::unique_ptr<execute::DeviceTask> prepare(const graph::Task& task, std::vector<cpu::Matrix> arguments,
                                               std::byte* scratch) override {
    const auto prepared = std::make_shared<const execute::PreparedTask>(task.operation, arguments);
    scratch_ = larger(scratch_, prepared->scratch());
    reserved_ = settled_ = false;
    auto fake = std::make_unique<FakeTask>();
    fake->name = task.name;
    fake->touches = execute::touches_of(task, arguments);
    fake->touches.push_back(touch(scratch, scratch_bytes_, true));
    fake->run = [prepared](cpu::Workers& workers) { prepared->run(workers); };
    return fake;
  }

  std::unique_ptr<execute::DeviceTask> prepare_finite_check(const cpu::Matrix& matrix, const std::int32_t* rows,
                                                            std::uint64_t* first) override {
    auto fake = std::make_unique<FakeTask>();
    fake->name = "finite check";
    const auto element = static_cast<std::int64_t>(size_of(matrix.dtype));
    fake->touches = {{{{},
                       std::bit_cast<std::intptr_t>(matrix.data),
                       matrix.rows,
                       matrix.cols * element,
                       matrix.row_stride * element},
                      false},
                     touch(first, sizeof *first, true)};
    if (rows != nullptr) fake->touches.push_back(touch(rows, sizeof *rows, false));
    fake->run = [=](cpu::Workers&) {
      cpu::Matrix written = matrix;
      if (rows != nullptr) written.rows = std::min<std::int64_t>(written.rows, *rows);
      const auto found = cpu::first_non_finite(written);
      if (found) *first = std::min(*first, static_cast<std::uint64_t>(*found));
    };
    return fake;
  }

  void launch(execute::DeviceStream stream, const execute::DeviceTask& task) override {
    ++counts_.launches;
    if (!settled_) complain("a task is launched before its tables have arrived");
    const auto& fake = static_cast<const FakeTask&>(task);
    enqueue(stream, {.name = fake.name, .touches = fake.touches, .body = [this, &fake] {
                       if (!std::exchange(reserved_, true)) workers_.reserve(scratch_);
                       fake.run(workers_);
                     }});
  }

  // Runs them in reverse order, since fused tasks are independent.
  std::unique_ptr<execute::DeviceTask> fuse(std::span<const execute::DeviceTask* const> tasks) override {
    settled_ = false;
    std::vector<const FakeTask*> parts;
    auto fused = std::make_unique<FakeTask>();
    for (const execute::DeviceTask* task : tasks) {
      parts.push_back(static_cast<const FakeTask*>(task));
      fused->touches.insert(fused->touches.end(), parts.back()->touches.begin(), parts.back()->touches.end());
    }
    fused->name = parts.front()->name + " and those fused with it";
    fused->run = [parts](cpu::Workers& workers) {
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) (*part)->run(workers);
    };
    return fused;
  }

  void settle() override { settled_ = true; }

  void synchronize(execute::DeviceStream stream) override {
    run_until([&] { return at(stream).queue.empty(); });
    // Work of other streams may or may not run meanwhile, by the seed.
    end_synchronization(at(stream).clock);
  }

  void synchronize(execute::DeviceEvent event) override {
    expect_not_captured(event);
    const Event& awaited = events_[event.index()];
    // A deadlock leaves nothing to be run.
    run_until([&] { return awaited.passed == awaited.recorded || idle(); });
    const auto known = awaited.clock.find(awaited.recorded);
    end_synchronization(known != awaited.clock.end() ? known->second : VectorClock());
  }

  bool done(execute::DeviceEvent event) override {
    while (!passed(event) && !idle()) {
      if (!run_one()) return false;
    }
    return true;
  }

  bool passed(execute::DeviceEvent event) override {
    expect_not_captured(event);
    const std::lock_guard lock(events_mutex_);
    return events_[event.index()].passed == events_[event.index()].recorded;
  }

  std::int64_t elapsed_ns(execute::DeviceEvent from, execute::DeviceEvent to) override {
    const Event &a = events_[from.index()], &b = events_[to.index()];
    if (!a.timed || !b.timed) complain("the time of an event that isn't timed");
    if (a.passed == 0 || b.passed == 0) complain("the time of an event that has not passed");
    return b.time - a.time;
  }

  void begin_capture(execute::DeviceStream origin) override {
    capturing_ = true;
    spoiled_ = false;
    captured_.emplace_back();
    at(origin).capturing = true;
    capture_members_ = {origin};
    captured_events_.clear();
  }

  execute::DeviceGraph end_capture(execute::DeviceStream origin) override {
    if (look_) look_();
    // Joined: the origin's last works wait, one stream after the other, for the last work of every member.
    std::vector<VectorClock> clock(streams_.size(), VectorClock(streams_.size()));
    std::vector<std::pair<std::uint64_t, VectorClock>> record_clock(events_.size());
    for (const auto& [stream, work] : captured_.back()) {
      VectorClock& own = clock[stream.index()];
      if (work.kind == Work::Kind::wait && record_clock[work.event].first > 0) {
        join(own, record_clock[work.event].second);
      }
      ++own[stream.index()];
      if (work.kind == Work::Kind::record) record_clock[work.event] = {work.ticket, own};
    }
    for (const execute::DeviceStream member : capture_members_) {
      // A record is the last thing that a joined stream does.
      if (member != origin && clock[origin.index()][member.index()] < clock[member.index()][member.index()]) {
        complain(fmt::format("stream {} isn't joined to the capture's origin", at(member).name));
      }
      at(member).capturing = false;
    }
    capturing_ = false;
    if (spoiled_) {
      captured_.back().clear();
      throw RuntimeFault("the capture was spoiled by a question about one of its events");
    }
    return execute::DeviceGraph(captured_.size() - 1);
  }

  void abandon_capture(execute::DeviceStream /*origin*/) noexcept override {
    for (const execute::DeviceStream member : capture_members_) at(member).capturing = false;
    if (capturing_) captured_.back().clear();
    capturing_ = false;
  }

  void launch(execute::DeviceStream stream, execute::DeviceGraph graph) override {
    ++counts_.graphs_launched;
    // The graph's streams begin after the launching stream's work, and this stream continues after all of them.
    const execute::DeviceEvent begin = add_event(false);
    counts_.events -= 1;
    record(begin, stream);
    std::vector<execute::DeviceStream> members;
    const auto works = captured_[graph.index()];
    for (const auto& [on, work] : works) {
      if (std::ranges::find(members, on) == members.end()) {
        members.push_back(on);
        if (on != stream) wait(on, begin);
      }
      Work again = work;
      // Within a graph, a wait refers to the record before it in the capture.
      if (work.kind == Work::Kind::record) again.ticket = next_ticket(work.event);
      if (work.kind == Work::Kind::wait) again.ticket = events_[work.event].recorded;
      enqueue(on, std::move(again));
    }
    for (const execute::DeviceStream member : members) {
      if (member == stream) continue;
      const execute::DeviceEvent end = add_event(false);
      counts_.events -= 1;
      record(end, member);
      wait(stream, end);
    }
  }

  void destroy(execute::DeviceGraph graph) override { captured_[graph.index()].clear(); }

  void push_range(const std::string& /*name*/) override {}
  void pop_range() override {}
  std::int64_t allocated_bytes() const override { return allocated_; }
  FakeDeviceCounts counts() const override { return counts_; }
  std::uint64_t order_hash() const override { return order_.value(); }

 private:
  std::byte* buffer(std::int64_t bytes) {
    ++counts_.allocations;
    buffers_.emplace_back(bytes);  // begins on a page
    std::byte* const memory = buffers_.back().data();
    std::memset(memory, 0xff, static_cast<std::size_t>(bytes));  // NaNs show in the results of a task that reads them
    return memory;
  }

  void move_rows_of(const kernels::RowMove& move, std::int64_t peer, std::byte* other) {
    const std::int64_t count = kernels::rows_between(move, peer);
    if (count < 0 || count > move.segment_rows()) return complain("rows that don't fit a segment");
    for (std::int64_t i = 0; i < count; ++i) {
      const kernels::MovedRow row = kernels::moved_row(move, peer, i);
      if (!row.fits) return complain("rows that don't fit their buffers");
      std::byte* const own_row = static_cast<std::byte*>(move.own) + row.own * move.row_bytes;
      std::byte* const other_row = other + row.other * move.row_bytes;
      std::memcpy(move.collects ? own_row : other_row, move.collects ? other_row : own_row,
                  static_cast<std::size_t>(move.row_bytes));
    }
  }

  static constexpr std::size_t kRememberedRecords = 4096;  // of an event; an older wait orders nothing

  static void join(VectorClock& clock, const VectorClock& known) {
    for (std::size_t s = 0; s < known.size(); ++s) clock[s] = std::max(clock[s], known[s]);
  }

  Stream& at(execute::DeviceStream stream) { return streams_[stream.index()]; }

  void complain(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

  // As CUDA: cudaErrorCapturedEvent, and the capture that is under way is of no use any more.
  void expect_not_captured(execute::DeviceEvent event) {
    const std::lock_guard lock(events_mutex_);
    if (!events_[event.index()].captured) return;
    if (capturing_) spoiled_ = true;
    throw RuntimeFault("a question about an event that a capture recorded");
  }

  void enqueue(execute::DeviceStream stream, Work work) {
    if (capturing_ && at(stream).capturing) {
      captured_.back().emplace_back(stream, std::move(work));
    } else {
      work.host = host_clock_;
      at(stream).queue.push_back(std::move(work));
    }
  }

  std::uint64_t next_ticket(std::size_t event) {
    const std::lock_guard lock(events_mutex_);
    return ++events_[event].recorded;
  }

  bool can_run(const Stream& stream) const {
    if (stream.queue.empty()) return false;
    const Work& work = stream.queue.front();
    if (work.kind == Work::Kind::wait) return events_[work.event].passed >= work.ticket;
    // As on a GPU: a value that is ahead by up to half of the range counts as reached.
    return work.kind != Work::Kind::wait_value ||
           static_cast<std::int32_t>(work.flag->load(std::memory_order_acquire) - work.value) >= 0;
  }

  // Whether the host may still let a stream go on.
  bool host_may_act() {
    const auto waits_for_value = [](const Stream& stream) {
      return !stream.queue.empty() && stream.queue.front().kind == Work::Kind::wait_value;
    };
    if (std::ranges::none_of(streams_, waits_for_value)) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!stands_since_) stands_since_ = now;
    return now - *stands_since_ < patience_;
  }

  bool idle() const {
    return std::ranges::all_of(streams_, [](const Stream& stream) { return stream.queue.empty(); });
  }

  template <class Condition>
  void run_until(const Condition& condition) {
    ++counts_.synchronizations;
    if (capturing_) complain("a synchronisation inside of a capture");
    for (comm::Backoff backoff; !condition();) {
      if (!run_one()) backoff.pause();  // until the host stores a value
    }
  }

  void end_synchronization(const VectorClock& known) {
    if (idle()) ++counts_.drains;
    host_clock_.resize(streams_.size());
    join(host_clock_, known);
    if (!fault_.empty()) throw std::logic_error("fake device: " + std::exchange(fault_, ""));
  }

  // A piece of work of a stream that can go on, chosen by the seed. False: no stream can before the host stores a
  // value.
  bool run_one() {
    std::vector<std::size_t> ready;
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      if (can_run(streams_[s])) ready.push_back(s);
    }
    if (ready.empty() && host_may_act()) return false;
    stands_since_.reset();
    if (ready.empty()) {
      std::string text = "deadlock:";
      for (const Stream& stream : streams_) {
        if (!stream.queue.empty()) text += fmt::format(" stream {} waits for ever;", stream.name);
      }
      for (Stream& stream : streams_) stream.queue.clear();
      complain(std::move(text));
      return true;
    }
    const std::size_t chosen = ready[random_() % ready.size()];
    Stream& stream = streams_[chosen];
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++now_;
    order_.add(chosen);
    join(stream.clock, work.host);
    if (work.kind == Work::Kind::wait) {
      join(stream.clock, events_[work.event].clock[work.ticket]);
      return true;
    }
    // Orders nothing among streams: the host's writes aren't tracked.
    if (work.kind == Work::Kind::wait_value) return true;
    ++stream.clock[chosen];
    if (work.kind == Work::Kind::record) {
      const std::lock_guard lock(events_mutex_);
      Event& event = events_[work.event];
      event.passed = work.ticket;
      event.clock[work.ticket] = stream.clock;
      if (event.clock.size() > kRememberedRecords) event.clock.erase(event.clock.begin());
      event.time = now_;
      return true;
    }
    for (const execute::Touch& touched : work.touches) {
      const auto earlier = log_.add({touched, chosen, stream.clock[chosen], work.name}, stream.clock);
      if (earlier) {
        complain(fmt::format("'{}' on stream {} {} bytes of '{}' without an order between them", work.name, stream.name,
                             touched.writes ? "writes" : "reads", *earlier));
      }
    }
    work.body();
    return true;
  }

  const std::int64_t memory_bytes_;
  const std::int64_t scratch_bytes_;
  const std::chrono::seconds patience_;
  const std::function<void()> look_;
  std::optional<std::chrono::steady_clock::time_point> stands_since_;  // no stream can go on
  std::mt19937_64 random_;
  std::vector<Buffer> buffers_;
  std::int64_t allocated_ = 0;
  std::deque<Stream> streams_;
  std::mutex events_mutex_;  // writers of events_, and passed(), which other threads call
  std::vector<Event> events_;
  AccessLog log_;
  cpu::Workers workers_{1};
  cpu::Scratch scratch_;
  bool reserved_ = false, settled_ = true;
  std::string fault_;
  FakeDeviceCounts counts_;
  Fingerprint order_;
  VectorClock host_clock_;
  std::int64_t now_ = 0;

  std::atomic<bool> capturing_ = false, spoiled_ = false;  // passed() may come from another thread
  std::vector<execute::DeviceStream> capture_members_;
  std::vector<std::size_t> captured_events_;
  std::vector<std::vector<std::pair<execute::DeviceStream, Work>>> captured_;  // by graph
};

}  // namespace

std::unique_ptr<FakeDevice> make_fake_device(const FakeDeviceOptions& options) {
  return std::make_unique<FakeDeviceImpl>(options);
}

}  // namespace weft::testing
