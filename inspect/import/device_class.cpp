#include "inspect/import/device_class.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace weft::inspect {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string lowered_letters(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
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
    std::string out;
    for (const char c : name.substr(0, std::min(name.find('('), name.size()))) {
      out += c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
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

}  // namespace weft::inspect
