#include "runtime/policy/scheduling/running_tasks.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace weft::policy {
RunningTasks::RunningTasks(const graph::Graph& graph, const cost::TaskCosts& costs, const PolicyOptions& options,
                           std::span<const plan::Stream> streams)
    : cost_(costs.ns),
      cores_(cost_.size(), 0),
      use_(cost_.size(), 1),
      beside_(cost_.size(), 1),
      slowdowns_(graph, options.machine.get()),
      slots_(streams.size()) {
  for (std::size_t i = 0; i < cost_.size(); ++i) {
    if (cost_[i] == 0) continue;
    cores_[i] = costs.cpu_ns[i] / cost_[i];
    use_[i] = std::min(1.0, costs.on_link()[i] / cost_[i]);
    if (costs.beside_ns.empty() || costs.beside_ns[i] <= cost_[i]) continue;
    beside_[i] = cost_[i] / costs.beside_ns[i];
    contends_ = true;
  }
  std::map<int, std::size_t> dense;
  for (const plan::Stream& stream : streams) {
    computes_ += stream.compute ? 1 : 0;
    const auto channel = static_cast<std::size_t>(stream.channel);
    const int link = stream.compute                    ? -1
                     : options.link_of_channel.empty() ? static_cast<int>(channel)
                                                       : options.link_of_channel.at(channel);
    local_.push_back(!stream.compute && graph.is_local(stream.channel));
    link_.push_back(stream.compute ? 0 : dense.emplace(link, dense.size()).first->second);
    directions_.push_back(Directions::both);
    if (stream.compute || !graph::is_message(stream.channel)) continue;
    has_messages_ = true;
    const bool sends = stream.channel == graph::Channel::send_next || stream.channel == graph::Channel::send_previous;
    directions_.back() = sends ? Directions::out : Directions::in;
  }
  links_ = dense.size();
  on_link_ = cost::LinkShares(links_ * (has_messages_ ? 2 : 1));
  contends_ = contends_ || dense.size() < streams.size() - computes_;
  if (options.machine == nullptr) return;
  contends_ = contends_ || !slowdowns_.none();
  shared_cores_ = options.machine->shared_cores;
  machine_cores_ = options.machine->cores;
  contends_ = contends_ || shared_cores_;
}

void RunningTasks::reset() {
  std::ranges::fill(slots_, Slot());
}

void RunningTasks::start(std::size_t stream, std::uint32_t task, double now) {
  slots_[stream] = {task, cost_[task], 1, now, now + cost_[task]};
}

std::uint32_t RunningTasks::end(std::size_t stream) {
  return std::exchange(slots_[stream].task, kIdle);
}

double RunningTasks::next() const {
  double next = std::numeric_limits<double>::infinity();
  for (const Slot& slot : slots_) {
    if (slot.task != kIdle) next = std::min(next, slot.finish);
  }
  return next;
}

void RunningTasks::set_rate(Slot& slot, double rate, double now) {
  if (slot.rate == rate) return;
  slot.remaining = std::max(0.0, slot.remaining - slot.rate * (now - slot.updated));
  slot.updated = now;
  slot.rate = rate;
  slot.finish = slot.remaining == 0 ? now
                : rate == 0         ? std::numeric_limits<double>::infinity()
                                    : now + slot.remaining / rate;
}

double RunningTasks::slowdown(std::uint32_t computation) const {
  double factor = 1;
  for (std::size_t s = computes_; s < slots_.size(); ++s) {
    if (slots_[s].task == kIdle || local_[s]) continue;
    factor = std::max(factor, slowdowns_.factor(slowdowns_.kind(computation), slowdowns_.kind(slots_[s].task)));
  }
  return factor;
}

void RunningTasks::use_link(std::size_t stream, double use) {
  if (directions_[stream] != Directions::in) on_link_.add(link_[stream], use);
  if (directions_[stream] != Directions::out && has_messages_) on_link_.add(links_ + link_[stream], use);
}

double RunningTasks::link_rate(std::size_t stream, double use) const {
  const double out = directions_[stream] == Directions::in ? 1 : on_link_.rate(link_[stream], use);
  if (directions_[stream] == Directions::out || !has_messages_) return out;
  return std::min(out, on_link_.rate(links_ + link_[stream], use));
}

void RunningTasks::settle(double now) {
  if (!contends_) return;
  on_link_.clear();
  for (std::size_t s = computes_; s < slots_.size(); ++s) {
    if (communicates(s)) use_link(s, use_[slots_[s].task]);
  }
  on_link_.divide();
  double running = 0, wanted = 0, taken = 0;  // computations; cores that transports want, and get
  for (std::size_t s = 0; s < computes_; ++s) running += slots_[s].task != kIdle ? 1 : 0;
  const auto rate = [&](std::size_t s) { return link_rate(s, use_[slots_[s].task]); };
  for (std::size_t s = computes_; shared_cores_ && s < slots_.size(); ++s) {
    if (communicates(s)) wanted += cores_[slots_[s].task] * rate(s);
  }
  const double granted = wanted > machine_cores_ ? machine_cores_ / wanted : 1;
  for (std::size_t s = computes_; s < slots_.size(); ++s) {
    if (!communicates(s)) continue;
    const std::uint32_t task = slots_[s].task;
    const double allowed = std::min(running > 0 ? beside_[task] : 1, granted) * rate(s);
    set_rate(slots_[s], allowed, now);
    taken += cores_[task] * allowed;
  }
  double share = 1;
  if (shared_cores_ && running > 0) {
    share = std::min(
        1.0, std::max(0.0, machine_cores_ - taken) * static_cast<double>(computes_) / (machine_cores_ * running));
  }
  for (std::size_t s = 0; s < computes_; ++s) {
    if (slots_[s].task != kIdle) set_rate(slots_[s], share / slowdown(slots_[s].task), now);
  }
}

}  // namespace weft::policy
