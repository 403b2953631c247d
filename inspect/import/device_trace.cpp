#include "inspect/import/device_trace.h"

#include <algorithm>
#include <array>
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

std::string lowered_letters(std::string_view text) {
  std::string out = lower_ascii(text);
  std::erase_if(out, [](unsigned char c) { return std::isalnum(c) == 0; });
  return out;
}

/// Without what stands in `open` and `close`, nested or not. Brackets that don't match end the text.
std::string without_brackets(std::string_view text, char open, char close) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    if (c == open) ++depth;
    if (depth == 0) out += c;
    if (c == close && depth > 0) --depth;
  }
  return out;
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

DeviceClass device_class(std::string_view name) {
  if (name.starts_with("nccl") || name.starts_with("hip") || name.starts_with("hccl") || contains(name, "ncclKernel")) {
    return DeviceClass::communication;
  }
  if (name.starts_with("Memcpy") || name.starts_with("Memset") || name.starts_with("dma")) return DeviceClass::memory;
  if (contains(name, "Sync") || contains(name, "Memcpy") || contains(name, "Memset") || contains(name, "dma")) {
    return DeviceClass::other;
  }
  return DeviceClass::compute;
}

std::string_view collective_kind(std::string_view name) {
  // Longer words first: a reduce-scatter is a reduce, too.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kKinds = {
      {{"allreduce", "all_reduce"},
       {"reducescatter", "reduce_scatter"},
       {"allgather", "all_gather"},
       {"alltoall", "all_to_all"},
       {"broadcast", "broadcast"},
       {"sendrecv", "send_receive"},
       {"barrier", "barrier"},
       {"scatter", "scatter"},
       {"gather", "gather"},
       {"reduce", "reduce"},
       {"recv", "receive"},
       {"send", "send"}}};
  const std::string letters = lowered_letters(name);
  for (const auto& [word, kind] : kKinds) {
    if (contains(letters, word)) return kind;
  }
  return "";
}

std::string short_kernel_name(std::string_view name) {
  if (device_class(name) == DeviceClass::memory) {
    std::string out = lower_ascii(name.substr(0, name.find('(')));
    std::ranges::replace(out, ' ', '_');
    while (out.ends_with('_')) out.pop_back();
    return out;
  }
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  std::string text(name);
  for (std::size_t at = 0; (at = text.find(kUnnamed)) != std::string::npos;) text.erase(at, kUnnamed.size());
  text = without_brackets(text, '<', '>');
  text.resize(std::min(text.find('('), text.size()));
  while (text.ends_with(' ')) text.pop_back();
  const std::size_t space = text.rfind(' ');
  if (space != std::string::npos) text.erase(0, space + 1);
  const std::size_t scope = text.rfind("::");
  if (scope != std::string::npos) text.erase(0, scope + 2);
  return text.empty() ? std::string(name) : text;
}

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
