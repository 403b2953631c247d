#include "inspect/import/kernel_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace weft::inspect {
namespace {

bool has_part(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t n>
bool has_any(std::string_view text, const std::array<std::string_view, n>& parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return has_part(text, part); });
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

/// "deep_ep::internode::dispatch" of "void deep_ep::internode::dispatch<false, 8>(int4*)".
std::string function_of(std::string_view name) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)::";
  std::string text(name);
  for (std::size_t at = 0; (at = text.find(kUnnamed)) != std::string::npos;) text.erase(at, kUnnamed.size());
  text = without_brackets(text, '<', '>');
  text.resize(std::min(text.find('('), text.size()));
  while (text.ends_with(' ')) text.pop_back();
  const std::size_t space = text.rfind(' ');
  if (space != std::string::npos) text.erase(0, space + 1);
  return text;
}

/// "dma" as a word, and not within "grad_map" without its signs.
bool has_dma(std::string_view name) {
  for (std::size_t at = 0; (at = name.find("dma", at)) != std::string_view::npos; ++at) {
    const auto letter = [&](std::size_t i) { return i < name.size() && std::isalpha(name[i] & 0x7F) != 0; };
    if (!(at > 0 && letter(at - 1)) && !letter(at + 3)) return true;
  }
  return false;
}

// Exchanges between ranks. Threads of a block, too, have "all-reduces", and products may end with one.
constexpr std::array<std::string_view, 7> kExchanges = {"allreduce", "allgather", "reducescatter",    "alltoall",
                                                        "all2all",   "sendrecv",  "crossdevicereduce"};
constexpr std::array<std::string_view, 6> kWithinDevice = {"warp", "block", "gemm", "matmul", "attention", "softmax"};
// Libraries that do nothing else. Lower case.
constexpr std::array<std::string_view, 10> kLibraries = {
    "nvshmem",     "rocshmem", "nccldevkernel", "ncclkernel", "mscclpp",
    "userbuffers", "multimem", "hybrid_ep::",   "pplx::",     "mori::"};

/// Of a function's name in lower case.
bool is_communication(const std::string& function) {
  if (function.starts_with("nccl") || function.starts_with("hccl") || function.starts_with("rccl")) return true;
  if (has_any(function, kLibraries)) return true;
  // The layout of tokens is computed.
  if (has_part(function, "deep_ep::")) return !has_part(function, "layout");
  const std::size_t scope = function.rfind("::");
  const std::string letters = lowered_letters(scope == std::string::npos ? function : function.substr(scope + 2));
  return has_any(letters, kExchanges) && !has_any(letters, kWithinDevice);
}

std::string kind_of_kernel(std::string_view name) {
  const std::string function = function_of(name);
  if (const std::string_view kind = collective_kind(function); !kind.empty()) return std::string(kind);
  const std::string lower = lower_ascii(function);
  if (has_part(lower, "dispatch") || has_part(lower, "combine")) return "all_to_all";  // of tokens, to and from experts
  return has_part(lower, "deep_ep::") ? "barrier" : "";
}

bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  return pattern.substr(p).find_first_not_of('*') == std::string_view::npos;
}

// Longer words first: a reduce-scatter is a reduce, too.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kCollectiveWords = {
    {{"crossdevicereduce", "all_reduce"},
     {"allreduce", "all_reduce"},
     {"reducescatter", "reduce_scatter"},
     {"allgather", "all_gather"},
     {"alltoall", "all_to_all"},
     {"all2all", "all_to_all"},
     {"broadcast", "broadcast"},
     {"sendrecv", "send_receive"},
     {"barrier", "barrier"},
     {"scatter", "scatter"},
     {"gather", "gather"},
     {"reduce", "reduce"},
     {"recv", "receive"},
     {"send", "send"}}};

}  // namespace

DeviceClass device_class(std::string_view name) {
  if (name.starts_with("Memcpy") || name.starts_with("Memset") || name.starts_with("dma")) return DeviceClass::memory;
  if (is_communication(lower_ascii(function_of(name)))) return DeviceClass::communication;
  if (has_part(name, "Sync") || has_part(name, "Memcpy") || has_part(name, "Memset") || has_dma(name) ||
      name.starts_with("c10d::") || name.starts_with("gloo:") || name == kLostKernel) {
    return DeviceClass::other;
  }
  return DeviceClass::compute;
}

CommunicationRule parse_communication_rule(std::string_view text) {
  CommunicationRule rule;
  const std::size_t equals = text.rfind('=');
  rule.pattern = std::string(text.substr(0, equals));
  if (equals != std::string_view::npos) rule.kind = std::string(text.substr(equals + 1));
  const std::vector<std::string> kinds = collective_kinds();
  const bool known = equals == std::string_view::npos || std::ranges::find(kinds, rule.kind) != kinds.end();
  if (rule.pattern.empty() || !known) {
    throw UserError(fmt::format("--communication '{}'", text), "PATTERN or PATTERN=KIND, with a kind of " + join(kinds),
                    "--communication 'my_dispatch*=all_to_all'");
  }
  return rule;
}

bool matches(const CommunicationRule& rule, std::string_view name) {
  if (rule.pattern.find_first_of("*?") == std::string::npos) return has_part(name, rule.pattern);
  return matches_glob(rule.pattern, name);
}

std::optional<std::string> communication_of(std::string_view name, const std::vector<CommunicationRule>& rules) {
  for (const CommunicationRule& rule : rules) {
    if (matches(rule, name)) return rule.kind.empty() ? kind_of_kernel(name) : rule.kind;
  }
  if (device_class(name) != DeviceClass::communication) return std::nullopt;
  return kind_of_kernel(name);
}

std::string_view collective_kind(std::string_view name) {
  const std::string letters = lowered_letters(name);
  for (const auto& [word, kind] : kCollectiveWords) {
    if (has_part(letters, word)) return kind;
  }
  return "";
}

std::vector<std::string> collective_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [word, kind] : kCollectiveWords) {
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.emplace_back(kind);
  }
  return kinds;
}

bool looks_like_communication(std::string_view name) {
  constexpr std::array<std::string_view, 11> kWords = {"nccl",      "shmem",     "rdma",      "crossdevice",
                                                       "crossrank", "internode", "intranode", "multimem",
                                                       "symmmem",   "deepep",    "interrank"};
  if (device_class(name) != DeviceClass::compute) return false;
  const std::string letters = lowered_letters(name);
  // All-reduces of the threads of a block aren't meant.
  const bool within = has_part(letters, "warp") || has_part(letters, "block");
  return has_any(letters, kWords) || (has_any(letters, kExchanges) && !within);
}

std::string short_kernel_name(std::string_view name) {
  if (device_class(name) == DeviceClass::memory) {
    std::string out = lower_ascii(name.substr(0, name.find('(')));
    std::ranges::replace(out, ' ', '_');
    while (out.ends_with('_')) out.pop_back();
    return out;
  }
  std::string text = function_of(name);
  const std::size_t scope = text.rfind("::");
  if (scope != std::string::npos) text.erase(0, scope + 2);
  return text.empty() ? std::string(name) : text;
}

namespace {

constexpr std::size_t kLongestLabel = 48;

bool is_word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Names of types and functions in a kernel's template arguments, in order: without numbers, types of elements, and
/// what PyTorch wraps around its operations.
std::vector<std::string> words_of_arguments(std::string_view name) {
  static const std::set<std::string_view> kPlain = {"float",
                                                    "int",
                                                    "unsigned",
                                                    "long",
                                                    "char",
                                                    "bool",
                                                    "double",
                                                    "void",
                                                    "short",
                                                    "signed",
                                                    "const",
                                                    "true",
                                                    "false",
                                                    "operator",
                                                    "lambda",
                                                    "at",
                                                    "native",
                                                    "std",
                                                    "c10",
                                                    "array",
                                                    "Array",
                                                    "Half",
                                                    "BFloat16",
                                                    "__half",
                                                    "half",
                                                    "ReduceOp",
                                                    "func_wrapper_t",
                                                    "gpu_kernel_impl",
                                                    "gpu_kernel_impl_nocast",
                                                    "__nv_bfloat16"};
  const std::size_t open = name.find('<');
  if (open == std::string_view::npos) return {};
  std::string text = without_brackets(name.substr(open), '(', ')');
  text = without_brackets(text, '{', '}');
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word_char(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word_char(text[end])) ++end;
    const std::string word = text.substr(at, end - at);
    // A namespace is followed by its member.
    const bool scope = end + 2 < text.size() && text.compare(end, 2, "::") == 0 && is_word_char(text[end + 2]) &&
                       text.compare(end + 2, 8, "operator") != 0;
    const bool number = std::isdigit(static_cast<unsigned char>(word[0])) != 0;
    if (!scope && !number && !kPlain.contains(word)) words.push_back(word);
    at = end;
  }
  return words;
}

/// Gives each name of a group the first word that not all of them have; of those with the same word, a second one.
void label_group(const std::vector<std::vector<std::string>>& words, const std::vector<std::size_t>& group, int depth,
                 std::vector<std::string>& labels) {
  std::map<std::string, std::vector<std::size_t>> by_label;
  for (const std::size_t i : group) {
    const auto told = std::ranges::find_if(words[i], [&](const std::string& word) {
      return !std::ranges::all_of(
          group, [&](std::size_t other) { return std::ranges::find(words[other], word) != words[other].end(); });
    });
    if (told == words[i].end()) continue;
    labels[i] += (labels[i].empty() ? "" : ",") + *told;
    by_label[*told].push_back(i);
  }
  if (depth == 0) return;
  for (const auto& [label, some] : by_label) {
    if (some.size() > 1) label_group(words, some, depth - 1, labels);
  }
}

}  // namespace

std::vector<std::string> telling_kernel_names(const std::vector<std::string_view>& names) {
  static const std::set<std::string_view> kSayNothing = {"Kernel", "Kernel2", "kernel", "device_kernel"};
  std::vector<std::string> out, labels(names.size());
  std::vector<std::vector<std::string>> words;
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.push_back(short_kernel_name(names[i]));
    words.push_back(words_of_arguments(names[i]));
    groups[out.back()].push_back(i);
  }
  for (const auto& [name, group] : groups) {
    if (group.size() > 1) label_group(words, group, 1, labels);
    for (const std::size_t i : group) {
      if (labels[i].empty() && !words[i].empty() && kSayNothing.contains(name)) labels[i] = words[i].front();
      if (labels[i].empty()) continue;
      if (labels[i].size() > kLongestLabel) labels[i].resize(kLongestLabel);
      out[i] += "<" + labels[i] + ">";
    }
  }
  return out;
}

}  // namespace weft::inspect
