#include "inspect/import/readers/kineto_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "base/utf8.h"
#include "inspect/formats/json_pull.h"

namespace weft::inspect {
namespace {

constexpr std::int64_t kTellEvery = 1 << 16;  // events

constexpr double kMostMicroseconds = 4e15;  // so that sums of two times fit into 63 bits of nanoseconds
constexpr std::size_t kMostRanksOfGroup = 1 << 20;

KinetoCategory category_of(std::string_view text) {
  const std::string lower = lower_ascii(text);
  constexpr std::array<std::pair<std::string_view, KinetoCategory>, 20> kKnown = {
      {{"kernel", KinetoCategory::kernel},
       {"gpu_memcpy", KinetoCategory::copy},
       {"memcpy", KinetoCategory::copy},
       {"gpu_memset", KinetoCategory::set},
       {"memset", KinetoCategory::set},
       {"cuda_runtime", KinetoCategory::call},
       {"cuda_driver", KinetoCategory::call},
       {"runtime", KinetoCategory::call},
       {"hip_runtime", KinetoCategory::call},
       {"cuda_sync", KinetoCategory::sync},
       {"user_annotation", KinetoCategory::user_mark},
       {"cpu_op", KinetoCategory::cpu_op},
       {"operator", KinetoCategory::cpu_op},
       {"ac2g", KinetoCategory::flow},
       {"python_function", KinetoCategory::other},
       {"gpu_user_annotation", KinetoCategory::other},
       {"fwdbwd", KinetoCategory::arrow},
       {"cuda_event", KinetoCategory::other},
       {"overhead", KinetoCategory::other},
       {"trace", KinetoCategory::other}}};
  const auto found = std::ranges::find(kKnown, lower, &std::pair<std::string_view, KinetoCategory>::first);
  return found == kKnown.end() ? KinetoCategory::unnamed : found->second;
}

/// Takes the next value, if it is a number or a text, as text.
std::string_view scalar(JsonPull& in) {
  const char first = in.next_byte();
  if (first == '"') return in.text();
  if (first != '{' && first != '[') return in.word();
  in.skip();
  return {};
}

double number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && std::isfinite(value) && value >= 0 ? value : 0;
}

/// Nanoseconds of microseconds as Kineto writes them: with decimals, an exponent or a sign.
std::int64_t nanoseconds_of(JsonPull& in) {
  const std::string_view word = scalar(in);
  const bool negative = word.starts_with('-');
  if (const auto plain = plain_nanoseconds(word.substr(negative ? 1 : 0))) {
    if (*plain >= 1000 * static_cast<std::int64_t>(kMostMicroseconds)) {
      in.refuse(fmt::format("the time {}", word), "microseconds below 4e15");
    }
    return negative ? -*plain : *plain;
  }
  const auto number = number_in<double>(word);
  if (!number || !(std::abs(*number) < kMostMicroseconds)) {
    in.refuse(fmt::format("found {} where a time stands", word), "microseconds");
  }
  return std::llround(*number * 1000);
}

/// A whole number as it stands or in quotes; `otherwise` for any other value.
std::int64_t loose_integer(JsonPull& in, std::int64_t otherwise) {
  return number_in<std::int64_t>(scalar(in)).value_or(otherwise);
}

/// A list of whole numbers, or the text of one: "[0, 1]". Anything else is no rank.
std::vector<std::int64_t> loose_ranks(JsonPull& in) {
  std::set<std::int64_t> ranks;
  const auto add = [&](std::string_view text) {
    const std::int64_t rank = number_in<std::int64_t>(text).value_or(-1);
    if (rank >= 0 && rank <= kMostWorld && ranks.size() < kMostRanksOfGroup) ranks.insert(rank);
  };
  if (in.next_byte() == '[') {
    read_list(in, [&] { add(scalar(in)); });
  } else {
    constexpr std::string_view kDigits = "0123456789";
    const std::string_view text = scalar(in);
    for (std::size_t at = 0; (at = text.find_first_of(kDigits, at)) != std::string_view::npos;) {
      const std::size_t end = std::min(text.find_first_not_of(kDigits, at), text.size());
      add(text.substr(at, end - at));
      at = end;
    }
  }
  return {ranks.begin(), ranks.end()};
}

/// A text, or the word of a number; "" of anything else. Bytes that aren't UTF-8 become '?'.
std::string loose_text(JsonPull& in) {
  return utf8_or_ascii(std::string(scalar(in)));
}

/// Elements of a tensor whose dimensions come next, or of a list of tensors; 0 of anything else.
double elements_next(JsonPull& in) {
  if (in.next_byte() != '[') {
    in.skip();
    return 0;
  }
  double product = 1, sum = 0;
  bool any = false;
  read_list(in, [&] {
    if (in.next_byte() == '[') {
      sum += elements_next(in);
    } else {
      product *= number_of(scalar(in));
      any = true;
    }
  });
  return any ? product : sum;
}

/// The sizes of an operator's inputs.
void take_inputs(JsonPull& in, KinetoEvent& event) {
  if (in.next_byte() != '[') return in.skip();
  read_list(in, [&] {
    const double elements = elements_next(in);
    if (elements == 0) return;
    event.least_input = event.least_input == 0 ? elements : std::min(event.least_input, elements);
    event.most_input = std::max(event.most_input, elements);
  });
}

void take_types(JsonPull& in, KinetoEvent& event) {
  if (in.next_byte() != '[') return in.skip();
  read_list(in, [&] {
    std::string type = loose_text(in);
    if (event.dtype.empty()) event.dtype = std::move(type);
  });
}

void take_argument(JsonPull& in, std::string_view key, KinetoEvent& event) {
  const auto integer = [&](std::int64_t& of) { of = loose_integer(in, of); };
  const auto noted = [&](auto read) {
    event.has_collective = true;
    read();
  };
  CollectiveNote& note = event.collective;
  if (key == "correlation") return integer(event.correlation);
  if (key == "stream") return integer(event.stream);
  if (key == "device") return integer(event.device);
  if (key == "wait_on_stream") return integer(event.wait_on_stream);
  if (key == "wait_on_cuda_event_record_corr_id") return integer(event.record_correlation);
  if (key == "Collective name") return noted([&] { note.kind = std::string(collective_kind(scalar(in))); });
  if (key == "In msg nelems") return noted([&] { event.in_elements = number_of(scalar(in)); });
  if (key == "Out msg nelems") return noted([&] { event.out_elements = number_of(scalar(in)); });
  if (key == "Group size")
    return noted([&] { note.group_size = std::clamp<std::int64_t>(loose_integer(in, 0), 0, kMostWorld); });
  if (key == "Process Group Name") return noted([&] { note.group = loose_text(in); });
  if (key == "Process Group Description") return noted([&] { note.description = loose_text(in); });
  if (key == "Process Group Ranks") return noted([&] { note.ranks = loose_ranks(in); });
  if (key == "Seq") return noted([&] { note.sequence = loose_integer(in, -1); });
  if (key == "Src Rank" || key == "Dst Rank") return noted([&] { note.peer = loose_integer(in, -1); });
  if (key == "Record function id") return integer(event.record_function);
  if (event.is_exchange() && key == "Input Dims") return take_inputs(in, event);
  if (event.is_exchange() && key == "Input type") return take_types(in, event);
  if (key == "bytes") {
    event.bytes = number_of(scalar(in));
  } else if (key == "dtype") {
    event.dtype = loose_text(in);
  } else {
    in.skip();
  }
}

void take_arguments(JsonPull& in, KinetoEvent& event) {
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) take_argument(in, key, event);
  event.collective.bytes = std::max(event.in_elements, event.out_elements) * element_bytes(event.dtype);
}

/// Reads one event by every spelling that PyTorch's profiler has had into `event`, which is cleared first.
void read_kineto_event(JsonPull& in, WantedCategories wanted, KinetoEvent& event) {
  event.clear();
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    // The category mostly comes early, and tells then that the rest doesn't matter.
    if (event.has_category && !wanted(event.category)) {
      in.skip();
      continue;
    }
    if (key == "cat") {
      event.category = category_of(scalar(in));
      event.has_category = true;
    } else if (key == "ph") {
      const std::string_view phase = scalar(in);
      event.phase = phase.empty() ? '\0' : phase[0];
    } else if (key == "name") {
      event.name = scalar(in);
    } else if (key == "ts") {
      event.begin = nanoseconds_of(in);
      event.has_begin = true;
    } else if (key == "dur") {
      event.length = nanoseconds_of(in);
      event.is_negative = event.length < 0;
      event.length = std::max<std::int64_t>(0, event.length);
      event.has_length = true;
    } else if (key == "pid") {
      event.process = loose_integer(in, -1);
    } else if (key == "tid") {
      event.thread = loose_integer(in, 0);
    } else if (key == "id") {
      event.id = loose_integer(in, -1);
    } else if (key == "args") {
      take_arguments(in, event);
    } else {
      in.skip();
    }
  }
  event.name = utf8_or_ascii(std::move(event.name));
}

void read_group(JsonPull& in, TraceOutline& out) {
  if (in.next_byte() != '{') return in.skip();
  ProcessGroup group;
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    if (key == "pg_name") {
      group.name = loose_text(in);
    } else if (key == "pg_desc") {
      group.description = loose_text(in);
    } else if (key == "pg_size") {
      group.size = std::clamp<std::int64_t>(loose_integer(in, 0), 0, kMostWorld);
    } else if (key == "ranks") {
      group.ranks = loose_ranks(in);
    } else {
      in.skip();
    }
  }
  if (group.size == 0) group.size = static_cast<std::int64_t>(group.ranks.size());
  out.groups.push_back(std::move(group));
}

void read_distributed_info(JsonPull& in, TraceOutline& out) {
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) {
    // A value that is no number is ignored.
    const auto number = [&](const char* member, std::int64_t& of, std::int64_t least) {
      const auto found = number_in<std::int64_t>(scalar(in));
      if (!found) return;
      if (*found < least || *found > kMostWorld) {
        in.refuse(fmt::format("distributedInfo.{} is {}", member, *found),
                  fmt::format("from {} to {}", least, kMostWorld));
      }
      of = *found;
    };
    if (key == "rank") {
      number("rank", out.rank, 0);
    } else if (key == "world_size") {
      number("world_size", out.world, 1);
    } else if (key == "pg_config" && in.next_byte() == '[') {
      read_list(in, [&] { read_group(in, out); });
    } else {
      in.skip();
    }
  }
  if (out.world > 0 && out.rank >= out.world)
    in.refuse(fmt::format("distributedInfo has rank {} of {}", out.rank, out.world), "a rank below world_size");
}

}  // namespace

double element_bytes(std::string_view dtype) {
  const std::string lower = lower_ascii(dtype);
  const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  if (has("double") || has("long") || has("64")) return 8;
  if (has("bfloat16") || has("half") || has("short") || has("16")) return 2;
  if (has("byte") || has("char") || has("bool") || has("int8") || has("float8")) return 1;
  return 4;
}

std::int64_t for_each_kineto_event(ByteSource source, const std::string& name, WantedCategories wanted,
                                   const TellImport& tell, const TakeKineto& take, TraceOutline* info) {
  JsonPull in(std::move(source), name);
  KinetoEvent event;
  std::int64_t events = 0;
  bool any = false;
  const auto read_events = [&] {
    any = true;
    read_list(in, [&] {
      read_kineto_event(in, wanted, event);
      if (++events % kTellEvery == 0 && tell) tell(name, events);
      if (wanted(event.category)) take(event);
    });
  };
  if (in.next_byte() == '[') {
    read_events();
  } else {
    in.open_object();
    for (std::string_view key; in.next_key(key);) {
      if (key == "traceEvents") {
        read_events();
      } else if (info != nullptr && key == "distributedInfo") {
        read_distributed_info(in, *info);
      } else if (info != nullptr && key == kMadeUpHost) {
        info->made_up_host = true;
        in.skip();
      } else {
        in.skip();
      }
    }
  }
  in.finish();
  if (!any) {
    throw UserError(fmt::format("'{}' has no \"traceEvents\"", name), "a trace of PyTorch's profiler",
                    "export it with export_chrome_trace()");
  }
  return events;
}

}  // namespace weft::inspect
