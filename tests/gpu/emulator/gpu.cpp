#include "tests/gpu/emulator/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <exception>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "tests/gpu/emulator/block.h"
#include "tests/gpu/emulator/failures.h"

namespace weft::emulator {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience{120};

// A graph that a stream is running.
struct GraphRun {
  std::shared_ptr<const Recording> graph;
  std::vector<std::size_t> waits_for;                // number of nodes that each node still waits for
  std::vector<std::vector<std::size_t>> successors;  // of each node
  std::vector<std::size_t> ready;                    // nodes that wait for nothing

  explicit GraphRun(std::shared_ptr<const Recording> of)
      : graph(std::move(of)), waits_for(graph->nodes.size()), successors(graph->nodes.size()) {
    for (std::size_t n = 0; n < graph->nodes.size(); ++n) {
      waits_for[n] = graph->nodes[n].after.size();
      for (const std::size_t before : graph->nodes[n].after) successors[before].push_back(n);
      if (waits_for[n] == 0) ready.push_back(n);
    }
  }
  void end(std::size_t node) {
    std::erase(ready, node);
    for (const std::size_t next : successors[node]) {
      if (--waits_for[next] == 0) ready.push_back(next);
    }
  }
};

struct Entry {
  Node node;
  std::optional<GraphRun> graph = {};
};

struct EventState {
  bool timed = false;
  std::uint64_t recorded = 0, passed = 0;
  Clock::time_point time;
};

}  // namespace
}  // namespace weft::emulator

struct CUstream_st {
  int device = 0;
  std::string name;
  std::deque<weft::emulator::Entry> queue = {};
  std::shared_ptr<weft::emulator::Recording> capture = {};
  std::vector<std::size_t> last = {};  // during a capture: the nodes after which the next node comes
};

struct CUevent_st {
  std::shared_ptr<weft::emulator::EventState> state = std::make_shared<weft::emulator::EventState>();
  std::shared_ptr<weft::emulator::Recording> capture = {};
  std::vector<std::size_t> last = {};
};

namespace weft::emulator {
namespace {

// CUDA's functions are process-wide, and so is their state.
struct Gpus {
  std::recursive_mutex mutex;
  std::mt19937_64 random{1};
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<std::unique_ptr<CUevent_st>> events;
  struct Failure {
    cudaError_t error = cudaSuccess;
    std::string text = "no error";
  };
  std::array<Failure, kDevices> failures;  // by device
  std::size_t misuses = 0;
  bool inside = false;  // inside run_one()

  Gpus() {
    for (int device = 0; device < kDevices; ++device) {
      streams.push_back(std::make_unique<CUstream_st>(CUstream_st{device, fmt::format("default of {}", device)}));
    }
  }
};

Gpus& gpus() {
  static Gpus all;
  return all;
}

thread_local int captures_of_thread = 0;

cudaError_t append(cudaStream_t stream, Node node) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t error = state(stream->device); error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    if (stream->capture->spoiled) return cudaErrorStreamCaptureInvalidated;
    node.after = stream->last;
    stream->capture->nodes.push_back(std::move(node));
    stream->last = {stream->capture->nodes.size() - 1};
  } else {
    stream->queue.push_back({std::move(node)});
  }
  return cudaSuccess;
}

struct Candidate {
  CUstream_st* stream;
  std::size_t node;  // in its graph
};

// Calls a part of a stream's work; false: it failed, and so has the stream's device.
bool ends_well(const CUstream_st& stream, const std::function<void()>& part) {
  try {
    part();
    return true;
  } catch (const std::exception& error) {
    fail(stream.device, cudaErrorLaunchFailure, error.what());
    return false;
  }
}

bool can_go_on(const CUstream_st& stream, const Node& node) {
  bool ready = true;
  return !node.ready || (ends_well(stream, [&] { ready = node.ready(); }) && ready);
}

// The kernel that may begin before the kernel at the stream's head, or before this node of the graph there, has ended:
// its place in the queue or in the graph.
std::optional<std::size_t> early_after(const CUstream_st& stream, std::size_t node) {
  const Entry& head = stream.queue.front();
  if (!head.graph) {
    const bool early = head.node.kernel && stream.queue.size() > 1 && stream.queue[1].node.early_work;
    return early ? std::optional<std::size_t>(1) : std::nullopt;
  }
  const std::vector<Node>& nodes = head.graph->graph->nodes;
  for (const std::size_t next : head.graph->successors[node]) {
    if (nodes[node].kernel && nodes[next].early_work && nodes[next].after.size() == 1) return next;
  }
  return std::nullopt;
}

// The stream's head, or this node of the graph there, is done.
void end_of(CUstream_st& stream, std::size_t node) {
  Entry& head = stream.queue.front();
  if (head.graph) head.graph->end(node);
  if (!head.graph || head.graph->ready.empty()) stream.queue.pop_front();
}

// Runs one of the entries that can run.
bool run_candidate(Gpus& all) {
  std::vector<Candidate> candidates, late;
  for (const auto& stream : all.streams) {
    if (stream->queue.empty()) continue;
    const Entry& entry = stream->queue.front();
    if (!entry.graph) {
      if (can_go_on(*stream, entry.node)) (entry.node.late ? late : candidates).push_back({stream.get(), 0});
      continue;
    }
    const std::vector<std::size_t> ready = entry.graph->ready;
    for (const std::size_t node : ready) {
      if (stream->queue.empty()) break;  // dropped by a failure
      if (can_go_on(*stream, entry.graph->graph->nodes[node])) candidates.push_back({stream.get(), node});
    }
  }
  if (candidates.empty()) candidates = std::move(late);
  std::erase_if(candidates, [](const Candidate& each) { return each.stream->queue.empty(); });
  if (candidates.empty()) return false;
  const auto [stream, node] = candidates[all.random() % candidates.size()];
  Entry& entry = stream->queue.front();
  const Node& chosen = entry.graph ? entry.graph->graph->nodes[node] : entry.node;
  const std::optional<std::size_t> early = early_after(*stream, node);
  if (early && all.random() % 2 == 0) {
    const Node& second = entry.graph ? entry.graph->graph->nodes[*early] : stream->queue[*early].node;
    if (!ends_well(*stream, [&] { second.early_work(chosen.work); })) return true;
    entry.graph ? entry.graph->end(node) : stream->queue.pop_front();
    end_of(*stream, entry.graph ? *early : 0);
  } else if (ends_well(*stream, chosen.work)) {
    end_of(*stream, node);
  }
  return true;
}

std::string heads_of_streams() {
  std::string text;
  for (const auto& stream : gpus().streams) {
    if (stream->queue.empty()) continue;
    const Entry& entry = stream->queue.front();
    text += fmt::format(
        "; {} of device {} at {}", stream->name, stream->device,
        entry.graph ? "a graph's " + entry.graph->graph->nodes[entry.graph->ready.front()].name : entry.node.name);
  }
  return text;
}

}  // namespace

int& current_device() {
  thread_local int device = 0;
  return device;
}

std::recursive_mutex& mutex() {
  return gpus().mutex;
}

void set_seed(std::uint64_t seed) {
  gpus().random.seed(seed);
}

cudaError_t state(int device) {
  const std::lock_guard lock(mutex());
  return gpus().failures[static_cast<std::size_t>(device)].error;
}
cudaError_t state() {
  return state(current_device());
}
void forget_error() {
  const std::lock_guard lock(mutex());
  for (const auto& stream : gpus().streams) stream->queue.clear();
  gpus().failures = {};
}
void fail(int device, cudaError_t error, const std::string& text) {
  const std::lock_guard lock(mutex());
  Gpus::Failure& of_device = gpus().failures[static_cast<std::size_t>(device)];
  if (of_device.error != cudaSuccess) return;
  of_device = {error, text};
  for (const auto& stream : gpus().streams) {
    if (stream->device == device) stream->queue.clear();
  }
  std::fprintf(stderr, "emulated GPU %d: %s\n", device, text.c_str());
}
void misuse(int device, const std::string& text) {
  const std::lock_guard lock(mutex());
  ++gpus().misuses;
  fail(device, cudaErrorIllegalState, text);
}
std::size_t misuses() {
  const std::lock_guard lock(mutex());
  return gpus().misuses;
}
std::string state_text() {
  const std::lock_guard lock(mutex());
  return gpus().failures[static_cast<std::size_t>(current_device())].text;
}

cudaError_t enqueue(cudaStream_t stream, Node work) {
  return append(stream_of(stream), std::move(work));
}

cudaError_t enqueue(cudaStream_t stream, std::string name, std::function<void()> work) {
  return enqueue(stream, {std::move(name), std::move(work)});
}

cudaError_t enqueue_late(cudaStream_t stream, std::string name, std::function<void()> work) {
  return enqueue(stream, {.name = std::move(name), .work = std::move(work), .late = true});
}

cudaError_t enqueue_when(cudaStream_t stream, std::string name, std::function<bool()> ready,
                         std::function<void()> work) {
  return enqueue(stream, {.name = std::move(name), .work = std::move(work), .ready = std::move(ready)});
}

cudaError_t enqueue_kernel(cudaStream_t stream, const char* name, dim3 blocks, dim3 threads, std::size_t shared_bytes,
                           std::function<void()> body, KernelStart how, unsigned cluster) {
  constexpr unsigned kMostThreads = 1024, kMostBlocksDown = 65535, kMostOfCluster = 8;
  const unsigned count = threads.x * threads.y * threads.z;
  if (count == 0 || count > kMostThreads || blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7fffffffU ||
      blocks.y > kMostBlocksDown || blocks.z > kMostBlocksDown || shared_bytes > kSharedBytes ||
      blocks.x % cluster != 0 || cluster > kMostOfCluster || (cluster > 1 && count % 32 != 0)) {
    return cudaErrorInvalidConfiguration;
  }
  const auto run = [=, kernel = std::string(name), body = std::move(body)](const std::function<void()>& earlier) {
    run_grid({kernel, blocks, threads, shared_bytes, cluster}, gpus().random(), body, earlier);
  };
  Node node{.name = name, .work = [run] { run(nullptr); }, .kernel = true};
  if (how == KernelStart::early) node.early_work = run;
  return enqueue_fallible(name, stream, std::move(node));
}

bool run_one() {
  const std::lock_guard lock(mutex());
  Gpus& all = gpus();
  // Work may ask to run more work, but the queue entry that contains it must not move.
  if (std::exchange(all.inside, true)) return false;
  const bool ran = run_candidate(all);
  all.inside = false;
  return ran;
}

cudaError_t run_until(const std::function<bool()>& over) {
  Clock::time_point limit = Clock::now() + kPatience;
  for (;;) {
    {
      const std::lock_guard lock(mutex());
      if (state() != cudaSuccess) return state();
      if (over()) return cudaSuccess;
      if (run_one()) {
        limit = Clock::now() + kPatience;
        continue;
      }
      if (Clock::now() > limit) {
        fail(current_device(), cudaErrorLaunchTimeout, "no work can continue" + heads_of_streams());
      }
    }
    // Another thread must act first.
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

cudaStream_t make_stream(int device, std::string name) {
  const std::lock_guard lock(mutex());
  gpus().streams.push_back(std::make_unique<CUstream_st>(CUstream_st{device, std::move(name)}));
  return gpus().streams.back().get();
}
void destroy_stream(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (stream->capture != nullptr) misuse(stream->device, "a stream was destroyed in a capture");
  std::erase_if(gpus().streams, [&](const auto& each) { return each.get() == stream; });
}
cudaStream_t stream_of(cudaStream_t stream) {
  return stream != nullptr ? stream : gpus().streams[static_cast<std::size_t>(current_device())].get();
}
bool idle(cudaStream_t stream) {
  return stream->queue.empty();
}
bool idle_device(int device) {
  return std::ranges::all_of(gpus().streams,
                             [&](const auto& stream) { return stream->device != device || stream->queue.empty(); });
}

cudaError_t begin_capture(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Recording>();
  stream->capture->origin = stream;
  stream->capture->members = {stream};
  stream->last.clear();
  ++captures_of_thread;
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t origin, std::shared_ptr<const Recording>& result) {
  const std::lock_guard lock(mutex());
  const std::shared_ptr<Recording> recording = origin->capture;
  if (recording == nullptr || recording->origin != origin) return cudaErrorIllegalState;
  // The nodes that precede the origin's last nodes.
  std::vector<bool> joined(recording->nodes.size());
  std::vector<std::size_t> open = origin->last;
  while (!open.empty()) {
    const std::size_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    open.insert(open.end(), recording->nodes[node].after.begin(), recording->nodes[node].after.end());
  }
  for (const cudaStream_t member : recording->members) {
    member->capture.reset();
    member->last.clear();
  }
  --captures_of_thread;
  if (recording->spoiled) return cudaErrorStreamCaptureInvalidated;
  if (std::ranges::find(joined, false) != joined.end()) return cudaErrorStreamCaptureUnjoined;
  result = recording;
  return cudaSuccess;
}

cudaError_t may_ask(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (stream->capture == nullptr) return cudaSuccess;
  stream->capture->spoiled = true;
  return cudaErrorStreamCaptureUnsupported;
}
cudaError_t may_ask(cudaEvent_t event) {
  const std::lock_guard lock(mutex());
  if (event->capture == nullptr) return cudaSuccess;
  event->capture->spoiled = true;
  return cudaErrorCapturedEvent;
}
bool thread_captures() {
  return captures_of_thread > 0;
}
bool captured(cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  return stream->capture != nullptr;
}

cudaError_t enqueue_graph(cudaStream_t stream, std::shared_ptr<const Recording> graph) {
  const std::lock_guard lock(mutex());
  if (const cudaError_t error = state(stream->device); error != cudaSuccess) return error;
  if (graph->nodes.empty()) return cudaSuccess;
  stream->queue.push_back({{"a graph", nullptr}, GraphRun(std::move(graph))});
  return cudaSuccess;
}

cudaEvent_t make_event(bool timed) {
  const std::lock_guard lock(mutex());
  gpus().events.push_back(std::make_unique<CUevent_st>());
  gpus().events.back()->state->timed = timed;
  return gpus().events.back().get();
}
void destroy_event(cudaEvent_t event) {
  const std::lock_guard lock(mutex());
  std::erase_if(gpus().events, [&](const auto& each) { return each.get() == event; });
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  event->capture = stream->capture;
  event->last = stream->last;
  if (stream->capture != nullptr) return stream->capture->spoiled ? cudaErrorStreamCaptureInvalidated : state();
  const std::uint64_t ticket = ++event->state->recorded;
  return enqueue(stream, "an event's record", [state = event->state, ticket] {
    state->passed = ticket;
    state->time = Clock::now();
  });
}

cudaError_t record_in_graph(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  if (stream->capture == nullptr) return cudaErrorInvalidValue;
  return enqueue(stream, "an event's record", [state = event->state] {
    state->passed = ++state->recorded;
    state->time = Clock::now();
  });
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event) {
  const std::lock_guard lock(mutex());
  if (event->capture != nullptr) {
    if (event->capture->spoiled) return cudaErrorStreamCaptureInvalidated;
    if (stream->capture == nullptr) {
      // This makes a stream join the capture.
      if (event->capture->origin->capture != event->capture) return cudaErrorCapturedEvent;
      stream->capture = event->capture;
      stream->capture->members.push_back(stream);
      stream->last.clear();
    } else if (stream->capture != event->capture) {
      return cudaErrorStreamCaptureMerge;
    }
    for (const std::size_t node : event->last) {
      if (std::ranges::find(stream->last, node) == stream->last.end()) stream->last.push_back(node);
    }
    return state();
  }
  if (stream->capture != nullptr) return cudaErrorStreamCaptureIsolation;
  const std::uint64_t ticket = event->state->recorded;  // if it was never recorded, there is nothing to wait for
  return enqueue_when(
      stream, "a wait for an event", [state = event->state, ticket] { return state->passed >= ticket; }, [] {});
}

bool passed(cudaEvent_t event) {
  return event->state->passed == event->state->recorded;
}
const std::chrono::steady_clock::time_point* time_of(cudaEvent_t event) {
  const EventState& of = *event->state;
  return of.timed && of.passed > 0 && of.passed == of.recorded ? &of.time : nullptr;
}

}  // namespace weft::emulator
