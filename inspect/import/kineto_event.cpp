#include "inspect/import/kineto_event.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/text/parse_number.h"
#include "base/utf8.h"

namespace weft::inspect {
namespace {

constexpr double kMostMicroseconds = 4e15;  // so that sums of two times fit into 63 bits of nanoseconds
constexpr std::int64_t kMostRank = 1 << 24;
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
       {"fwdbwd", KinetoCategory::other},
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

double element_bytes(std::string_view dtype) {
  const std::string lower = lower_ascii(dtype);
  const auto has = [&](std::string_view part) { return lower.find(part) != std::string::npos; };
  if (has("double") || has("long") || has("64")) return 8;
  if (has("bfloat16") || has("half") || has("short") || has("16")) return 2;
  if (has("byte") || has("char") || has("bool") || has("int8") || has("float8")) return 1;
  return 4;
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
  if (key == "bytes") {
    event.bytes = number_of(scalar(in));
    return;
  }
  if (key == "wait_on_stream") return integer(event.wait_on_stream);
  if (key == "wait_on_cuda_event_record_corr_id") return integer(event.record_correlation);
  if (key == "Collective name") return noted([&] { note.kind = std::string(collective_kind(scalar(in))); });
  if (key == "In msg nelems") return noted([&] { event.in_elements = number_of(scalar(in)); });
  if (key == "Out msg nelems") return noted([&] { event.out_elements = number_of(scalar(in)); });
  if (key == "Group size")
    return noted([&] { note.group_size = std::clamp<std::int64_t>(loose_integer(in, 0), 0, kMostRank); });
  if (key == "dtype") {
    event.dtype = loose_text(in);
    return;
  }
  if (key == "Process Group Name") return noted([&] { note.group = loose_text(in); });
  if (key == "Process Group Description") return noted([&] { note.description = loose_text(in); });
  if (key == "Process Group Ranks") return noted([&] { note.ranks = loose_ranks(in); });
  if (key == "Seq") return noted([&] { note.sequence = loose_integer(in, -1); });
  if (key == "Src Rank" || key == "Dst Rank") return noted([&] { note.peer = loose_integer(in, -1); });
  in.skip();
}

void take_arguments(JsonPull& in, KinetoEvent& event) {
  if (in.next_byte() != '{') return in.skip();
  in.open_object();
  for (std::string_view key; in.next_key(key);) take_argument(in, key, event);
  event.collective.bytes = std::max(event.in_elements, event.out_elements) * element_bytes(event.dtype);
}

}  // namespace

void KinetoEvent::clear() {
  std::string kept = std::move(name);  // its memory
  *this = KinetoEvent();
  kept.clear();
  name = std::move(kept);
}

std::int64_t nanoseconds_of(JsonPull& in) {
  const std::string_view word = scalar(in);
  const bool negative = word.starts_with('-');
  const std::string_view digits = word.substr(negative ? 1 : 0);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + point, value);
  const std::string_view decimals = digits.substr(std::min(point + 1, digits.size()));
  const bool plain = error == std::errc() && end == digits.data() + point && point > 0 && digits[0] != '-' &&
                     std::ranges::all_of(decimals, [](char c) { return c >= '0' && c <= '9'; });
  if (!plain) {
    const auto number = number_in<double>(word);
    if (!number || !(std::abs(*number) < kMostMicroseconds)) {
      in.refuse(fmt::format("found {} where a time stands", word), "microseconds");
    }
    return std::llround(*number * 1000);
  }
  if (value >= static_cast<std::int64_t>(kMostMicroseconds)) {
    in.refuse(fmt::format("the time {}", word), "microseconds below 4e15");
  }
  value *= 1000;
  std::int64_t scale = 100;
  for (const char digit : decimals.substr(0, 3)) {
    value += scale * (digit - '0');
    scale /= 10;
  }
  if (decimals.size() > 3 && decimals[3] >= '5') ++value;
  return negative ? -value : value;
}

std::int64_t loose_integer(JsonPull& in, std::int64_t otherwise) {
  return number_in<std::int64_t>(scalar(in)).value_or(otherwise);
}

std::vector<std::int64_t> loose_ranks(JsonPull& in) {
  std::vector<std::int64_t> ranks;
  const auto add = [&](std::string_view text) {
    const std::int64_t rank = number_in<std::int64_t>(text).value_or(-1);
    if (rank >= 0 && rank <= kMostRank && ranks.size() < kMostRanksOfGroup) ranks.push_back(rank);
  };
  if (in.next_byte() == '[') {
    in.open_array();
    while (in.next_item()) add(scalar(in));
  } else {
    std::string digits;
    for (const char c : std::string(scalar(in)) + ",") {
      if (c >= '0' && c <= '9') {
        digits += c;
      } else if (!digits.empty()) {
        add(digits);
        digits.clear();
      }
    }
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

std::string loose_text(JsonPull& in) {
  return utf8_or_ascii(std::string(scalar(in)));
}

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
      event.length = std::max<std::int64_t>(0, nanoseconds_of(in));
      event.has_length = true;
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

}  // namespace weft::inspect
