// A device that is queried during a capture, as a watchdog's thread may do.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/execute/device/device_executor.h"

namespace weft::testing {

/// Passes every call on to another device, and calls `look` when all of a capture is recorded, before it ends.
class WatchedDevice : public execute::Device {
 public:
  WatchedDevice(std::unique_ptr<execute::Device> inner, std::function<void()> look)
      : inner_(std::move(inner)), look_(std::move(look)) {}

  std::string name() const override { return inner_->name(); }
  std::uint64_t identity() const override { return inner_->identity(); }
  execute::DeviceMemory memory() const override { return inner_->memory(); }
  std::byte* allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }
  std::byte* allocate_pinned(std::int64_t bytes) override { return inner_->allocate_pinned(bytes); }
  execute::DeviceStream add_stream(std::string name, execute::StreamPriority priority) override {
    return inner_->add_stream(std::move(name), priority);
  }
  execute::DeviceEvent add_event(bool timed) override { return inner_->add_event(timed); }
  void record(execute::DeviceEvent event, execute::DeviceStream stream) override { inner_->record(event, stream); }
  void wait(execute::DeviceStream stream, execute::DeviceEvent event) override { inner_->wait(stream, event); }
  void wait_value(execute::DeviceStream stream, const std::atomic<std::uint32_t>* flag, std::uint32_t value) override {
    inner_->wait_value(stream, flag, value);
  }
  void copy(execute::DeviceStream stream, void* to, const void* from, std::int64_t bytes) override {
    inner_->copy(stream, to, from, bytes);
  }
  void sum(execute::DeviceStream stream, std::span<const void* const> sources, void* out, std::int64_t count,
           DType dtype) override {
    inner_->sum(stream, sources, out, count, dtype);
  }
  std::int64_t scratch_bytes(const graph::Graph& graph, const graph::Task& task) override {
    return inner_->scratch_bytes(graph, task);
  }
  std::unique_ptr<execute::DeviceTask> prepare(const graph::Graph& graph, const graph::Task& task,
                                               std::vector<cpu::Matrix> arguments) override {
    return inner_->prepare(graph, task, std::move(arguments));
  }
  void launch(execute::DeviceStream stream, const execute::DeviceTask& task) override { inner_->launch(stream, task); }
  std::unique_ptr<execute::DeviceTask> fuse(std::span<const execute::DeviceTask* const> tasks) override {
    return inner_->fuse(tasks);
  }
  void settle() override { inner_->settle(); }
  void synchronize(execute::DeviceStream stream) override { inner_->synchronize(stream); }
  void synchronize(execute::DeviceEvent event) override { inner_->synchronize(event); }
  bool done(execute::DeviceEvent event) override { return inner_->done(event); }
  bool passed(execute::DeviceEvent event) override { return inner_->passed(event); }
  std::int64_t elapsed_ns(execute::DeviceEvent from, execute::DeviceEvent to) override {
    return inner_->elapsed_ns(from, to);
  }
  void begin_capture(execute::DeviceStream origin) override { inner_->begin_capture(origin); }
  execute::DeviceGraph end_capture(execute::DeviceStream origin) override {
    look_();
    return inner_->end_capture(origin);
  }
  void abandon_capture(execute::DeviceStream origin) noexcept override { inner_->abandon_capture(origin); }
  void launch(execute::DeviceStream stream, execute::DeviceGraph graph) override { inner_->launch(stream, graph); }
  void destroy(execute::DeviceGraph graph) override { inner_->destroy(graph); }
  void push_range(const std::string& name) override { inner_->push_range(name); }
  void pop_range() override { inner_->pop_range(); }
  std::int64_t allocated_bytes() const override { return inner_->allocated_bytes(); }

 private:
  std::unique_ptr<execute::Device> inner_;
  std::function<void()> look_;
};

/// An executor of ranks that share such a device, whose steps are replayed; `looks` counts a watchdog's queries.
inline std::unique_ptr<execute::Executor> watched_executor(
    comm::World& world, const execute::State& state, const graph::Grid& grid,
    const std::function<std::unique_ptr<execute::Device>()>& make_device, int& looks) {
  auto asked = std::make_shared<std::function<void()>>();
  auto team = execute::make_team(world, [&] {
    const execute::DeviceExecutorOptions options{.kept_steps = 1, .trace_every = 2, .graphs = true};
    return std::make_shared<execute::DeviceTeam>(
        std::make_unique<WatchedDevice>(make_device(), [asked] { (*asked)(); }), world.size(), grid, options);
  });
  auto executor = std::make_unique<execute::DeviceExecutor>(std::move(team), world, state);
  if (world.rank() == 0) {
    *asked = [watched = executor.get(), &looks] {
      watched->status();
      watched->describe();
      ++looks;
    };
  }
  return executor;
}

}  // namespace weft::testing
