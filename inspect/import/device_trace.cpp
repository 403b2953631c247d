#include "inspect/import/device_trace.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace weft::inspect {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

constexpr std::int32_t kMostNumber = 100'000;

/// The number that follows one of `words` after at most two signs; -1 if there is none.
std::int32_t number_after(const std::string& lower, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    for (std::size_t at = lower.find(word); at != std::string::npos; at = lower.find(word, at + 1)) {
      if (at > 0 && lower[at - 1] >= 'a' && lower[at - 1] <= 'z') continue;
      std::size_t digit = at + word.size();
      for (int signs = 0; signs < 2 && digit < lower.size(); ++signs) {
        if (std::isalnum(static_cast<unsigned char>(lower[digit])) == 0) ++digit;
      }
      std::int32_t number = -1;
      for (; digit < lower.size() && lower[digit] >= '0' && lower[digit] <= '9' && number < kMostNumber; ++digit) {
        number = std::max(number, 0) * 10 + (lower[digit] - '0');
      }
      if (number >= 0) return number;
    }
  }
  return -1;
}

}  // namespace

HostCallKind host_call_kind(std::string_view name) {
  const auto has = [&](std::string_view part) { return contains(name, part); };
  if (has("StreamWaitEvent")) return HostCallKind::wait;
  if (has("EventRecord")) return HostCallKind::record;
  if (has("EventSynchronize")) return HostCallKind::event_sync;
  if (has("StreamSynchronize")) return HostCallKind::stream_sync;
  if (has("DeviceSynchronize") || has("CtxSynchronize")) return HostCallKind::device_sync;
  if (has("Launch") || has("Memcpy") || has("Memset")) return HostCallKind::launch;
  return HostCallKind::other;
}

bool is_dispatched(std::string_view name) {
  return contains(name, "::") && !name.starts_with("autograd::engine::") && !name.starts_with("torch::autograd::");
}

MarkedPlace place_in_name(std::string_view name) {
  const std::string lower = lower_ascii(name);
  const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  MarkedPlace place;
  if (has("zero_grad")) {
    // Neither: it only clears gradients.
  } else if (has("backward") || lower.starts_with("autograd::engine::evaluate_function")) {
    place.phase = graph::Phase::backward;
  } else if (has("optimizer")) {
    place.phase = graph::Phase::update;
  } else if (has("forward")) {
    place.phase = graph::Phase::forward;
  }
  place.layer = number_after(lower, {"layers", "layer", "blocks", "block"});
  place.micro_batch = number_after(lower, {"microbatch", "micro_batch", "micro-batch", "micro batch", "mb"});
  return place;
}

std::vector<MarkedPlace> places_of_calls(const DeviceTrace& trace) {
  std::vector<MarkedPlace> by_name;
  for (std::uint32_t name = 0; name < trace.names.size(); ++name)
    by_name.push_back(place_in_name(trace.names.text(name)));
  std::vector<MarkedPlace> out(trace.calls.size());
  std::map<std::int64_t, std::vector<const HostMark*>> open;  // by thread, the innermost last
  std::size_t next = 0;
  for (std::size_t i = 0; i < trace.calls.size(); ++i) {
    const HostCall& call = trace.calls[i];
    for (; next < trace.marks.size() && trace.marks[next].begin <= call.begin; ++next) {
      std::vector<const HostMark*>& stack = open[trace.marks[next].thread];
      while (!stack.empty() && stack.back()->end <= trace.marks[next].begin) stack.pop_back();
      stack.push_back(&trace.marks[next]);
    }
    for (const HostMark* mark : open[call.thread]) {
      if (mark->end < call.begin) continue;
      const MarkedPlace& told = by_name[mark->name];
      if (told.phase) out[i].phase = told.phase;
      if (told.layer >= 0) out[i].layer = told.layer;
      if (told.micro_batch >= 0) out[i].micro_batch = told.micro_batch;
    }
  }
  return out;
}

}  // namespace weft::inspect
