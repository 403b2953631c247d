#include "inspect/formats/known_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/files/input_file.h"

namespace weft::inspect {
namespace {

constexpr std::size_t kLookedAt = 1 << 16;  // bytes of a file

}  // namespace

std::string_view to_string(KnownFormat format) {
  constexpr std::array<std::string_view, 8> kNames = {
      "a graph file",   "a trace of Weft", "a trace of PyTorch's profiler", "an execution trace of PyTorch",
      "Chakra as JSON", "a JAX profile",   "a TensorFlow profile",          "a database of Nsight Systems"};
  static_assert(kNames.size() == static_cast<std::size_t>(KnownFormat::nsight_database) + 1);
  return kNames[static_cast<std::size_t>(format)];
}

std::optional<KnownFormat> known_format(std::string_view head) {
  const auto has = [&](std::string_view part) { return head.find(part) != std::string_view::npos; };
  if (head.starts_with("SQLite format 3")) return KnownFormat::nsight_database;
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (head[first] != '{' && head[first] != '[')) return std::nullopt;
  if (has("\"weft-graph\"")) return KnownFormat::graph_file;
  if (has("\"weft\":") || has("\"weft\" :")) return KnownFormat::weft_trace;
  if (has("\"cuda_runtime\"") || has("\"cpu_op\"") || has("\"deviceProperties\"") || has("\"baseTimeNanoseconds\"")) {
    return KnownFormat::pytorch_profile;
  }
  if (has("\"rf_id\"") || (has("\"nodes\"") && has("\"schema\""))) return KnownFormat::execution_trace;
  const bool dependent = has("ctrl_deps\"") || has("ctrlDeps\"") || has("data_deps\"") || has("dataDeps\"");
  if (dependent || has("COMM_COLL_NODE") || has("COMP_NODE")) return KnownFormat::chakra_json;
  if (!has("\"traceEvents\"")) return std::nullopt;
  if (has("TensorFlow") || has("\"tf_op\"")) return KnownFormat::tensorflow_profile;
  if (has("hlo_op") || has("hlo_module") || has("/device:") || has("/host:CPU")) return KnownFormat::jax_profile;
  return std::nullopt;
}

std::string head_of_file(const std::filesystem::path& file, std::size_t most, std::string_view what) {
  OpenedFile opened = open_text_file(file, what);
  std::string head(most, '\0');
  std::size_t count = 0;
  while (count < head.size()) {
    const std::size_t more = opened.source({head.data() + count, head.size() - count});
    if (more == 0) break;
    count += more;
  }
  head.resize(count);
  return head;
}

std::optional<KnownFormat> known_format_of(const std::filesystem::path& file) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(file, none)) return std::nullopt;
  try {
    return known_format(head_of_file(file, kLookedAt, "the file"));
  } catch (const UserError&) {
    return std::nullopt;  // whoever reads it tells why
  }
}

void refuse_foreign_trace(const std::filesystem::path& file) {
  const std::optional<KnownFormat> format = known_format_of(file);
  if (!format) return;
  const auto refuse = [&](std::string_view fix) {
    throw UserError(fmt::format("'{}' is {}", file.string(), to_string(*format)),
                    "traces of PyTorch's profiler, Nsight Systems' databases, or Chakra's protobuf files",
                    std::string(fix));
  };
  switch (*format) {
    case KnownFormat::execution_trace:
      return refuse(
          fmt::format("weft trace import PROFILE.json --execution-trace {}: this file alone has no times of a device",
                      file.string()));
    case KnownFormat::chakra_json:
      return refuse("give the .et files from which it was made");
    case KnownFormat::jax_profile:
    case KnownFormat::tensorflow_profile:
      return refuse(
          "record the step with nsys profile and export it with nsys export --type sqlite: Weft reads that, whatever "
          "framework ran");
    case KnownFormat::graph_file:
      return refuse(fmt::format("it is imported already: weft simulate {}", file.string()));
    case KnownFormat::weft_trace:
    case KnownFormat::pytorch_profile:
    case KnownFormat::nsight_database:
      return;
  }
}

void expect_weft_trace(const std::filesystem::path& file) {
  const std::optional<KnownFormat> format = known_format_of(file);
  if (!format || *format == KnownFormat::weft_trace) return;
  const std::string path = file.string();
  throw UserError(fmt::format("'{}' is {}", path, to_string(*format)), "a trace that Weft recorded, or a run's folder",
                  *format == KnownFormat::graph_file ? fmt::format("weft simulate {} or weft explain {}", path, path)
                                                     : fmt::format("weft trace import {} -o step.graph.json", path));
}

void refuse_trace(const std::filesystem::path& file) {
  const std::optional<KnownFormat> format = known_format_of(file);
  if (!format || *format == KnownFormat::graph_file || *format == KnownFormat::weft_trace) return;
  const std::string path = file.string();
  throw UserError(fmt::format("'{}' is {}", path, to_string(*format)), "a graph file, NAME.graph.json",
                  fmt::format("weft trace import {} -o step.graph.json makes one", path));
}

}  // namespace weft::inspect
