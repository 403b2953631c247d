#include "inspect/drawing/task_label.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <span>
#include <string_view>
#include <utility>

namespace weft::inspect {
namespace {

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (const auto part : std::views::split(name, '.')) parts.emplace_back(part.begin(), part.end());
  return parts;
}

std::string joined(std::span<const std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text.append(text.empty() ? "" : ".").append(part);
  return text;
}

/// "mb0", "L12": the letters and a number.
bool is_numbered(std::string_view part, std::string_view letters) {
  if (!part.starts_with(letters) || part.size() == letters.size()) return false;
  return std::ranges::all_of(part.substr(letters.size()), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_phase(std::string_view part) {
  return part == "fwd" || part == "bwd" || part == "recompute" || part == "update";
}

/// gemm_dw → dW, all_reduce_dx → AR dX, gelu_dx → gelu dX: the purpose becomes a word of its own.
std::string short_operation(std::string_view operation) {
  using Word = std::pair<std::string_view, std::string_view>;
  static constexpr std::array<Word, 5> kBegins = {{{"all_reduce", "AR"},
                                                   {"all_gather", "AG"},
                                                   {"reduce_scatter", "RS"},
                                                   {"all_to_all", "A2A"},
                                                   {"exchange", "XR"}}};
  static constexpr std::array<Word, 5> kEnds = {
      {{"_dqkv", " dQKV"}, {"_dw", " dW"}, {"_dx", " dX"}, {"_dy", " dY"}, {"_w", " W"}}};
  std::string text(operation);
  if (text.starts_with("gemm_d")) text.erase(0, 4);
  for (const auto& [end, word] : kEnds) {
    if (!text.ends_with(end)) continue;
    text.replace(text.size() - end.size(), end.size(), word);
    break;
  }
  for (const auto& [begin, word] : kBegins) {
    if (!text.starts_with(begin)) continue;
    text.replace(0, begin.size(), word);
    if (text.size() > word.size() && text[word.size()] == '_') text[word.size()] = ' ';
  }
  return text.substr(text.starts_with(' ') ? 1 : 0);
}

}  // namespace

std::vector<std::string> task_labels(const std::string& name) {
  std::vector<std::string> labels = {name};
  const auto add = [&](std::string label) {
    if (!label.empty() && label.size() < labels.back().size()) labels.push_back(std::move(label));
  };
  std::vector<std::string_view> parts = parts_of(name);
  if (parts.size() > 1 && is_numbered(parts.front(), "mb")) parts.erase(parts.begin());
  std::string layer;
  if (parts.size() > 1 && is_numbered(parts.front(), "L")) {
    layer = std::string(parts.front()) + " ";
    parts.erase(parts.begin());
  }
  // A phase stands between the part of the model and what is done with it.
  const auto phase = std::ranges::find_if(parts, is_phase);
  if (phase == parts.end() || phase + 1 == parts.end()) {
    for (std::size_t first = 0; first < parts.size(); ++first) {
      if (!layer.empty()) add(layer + joined(std::span(parts).subspan(first)));
    }
    for (std::size_t first = 0; first < parts.size(); ++first) add(joined(std::span(parts).subspan(first)));
    return labels;
  }
  const std::span<const std::string_view> where(parts.begin(), phase), what(phase + 1, parts.end());
  const std::string operation = short_operation(what.front());
  const std::string pieces = what.size() > 1 ? " " + joined(what.subspan(1)) : "";  // of a product in pieces: o0.i1
  const std::string place = where.empty() ? "" : joined(where) + " ";
  const std::string part = where.size() < 2 ? place : joined(where.subspan(1)) + " ";
  add(layer + place + operation + pieces);
  if (operation == "gemm" && !part.empty()) {  // most bars are products: the place tells more
    const std::string of = part.substr(0, part.size() - 1);
    add(layer + of + pieces);
    add(layer + of);
    add(of);
    return labels;
  }
  add(layer + part + operation + pieces);
  add(layer + part + operation);
  add(part + operation);
  add(operation);
  return labels;
}

}  // namespace weft::inspect
