// The key of the rewrites, which are parsed when they are set: the graph's rewrites, and batch-split, which lowers
// another graph.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text/parse_number.h"
#include "runtime/plan/rewrite.h"
#include "train/config/config_table.h"
#include "train/config/key_kinds.h"

namespace weft::train {

namespace {

constexpr std::string_view kBatchSplit = "batch-split";
constexpr std::int64_t kMostPieces = 1'000'000'000;

/// The pieces that "batch-split=4" asks for; 0 for another rewrite.
std::int64_t batch_split_of(std::string_view rewrite) {
  if (rewrite == kBatchSplit) return 2;
  if (!rewrite.starts_with(fmt::format("{}=", kBatchSplit))) return 0;
  const std::string_view digits = rewrite.substr(kBatchSplit.size() + 1);
  const auto pieces = number_in<std::int64_t>(digits);
  if (!pieces || *pieces < 2 || *pieces > kMostPieces) {
    throw UserError(fmt::format("rewrite \"{}\"", rewrite), "pieces of a micro-batch, from 2",
                    fmt::format("write {}=2", kBatchSplit));
  }
  return *pieces;
}

void set_rewrites(RunConfig& config, std::string_view value, std::string_view where) {
  try {
    std::vector<std::string_view> exact;
    std::int64_t pieces = 1;
    for (const std::string_view entry : parts_of(value, ';')) {
      if (const std::int64_t split = batch_split_of(entry); split == 0) {
        exact.push_back(entry);
      } else if (pieces > 1) {
        throw UserError(fmt::format("rewrite {} is given twice", kBatchSplit), "once", "leave one out");
      } else {
        pieces = split;
      }
    }
    config.rewrites = plan::parse_rewrites(fmt::format("{}", fmt::join(exact, ";")));
    config.batch_split = pieces;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", where, error.what()), "", "");
  }
}

std::string rewrites_text(const RunConfig& config) {
  const std::string exact = plan::to_string(config.rewrites);
  if (config.batch_split == 1) return exact;
  return fmt::format("{}={}{}{}", kBatchSplit, config.batch_split, exact.empty() ? "" : ";", exact);
}

}  // namespace

ConfigKey rewrites_key() {
  return {
      "rewrites",
      ValueKind::text,
      "text",
      "changes to the graph, as in \"bucket=25MB;reshard\". reshard=LAYERS, recompute=LAYERS and pack-weights=USES "
      "keep every bit. bucket=BYTES, split-collective=BYTES and ar-to-rs-ag do so too, except over NCCL in groups of "
      "three ranks or more, where sums may round otherwise. fuse-gelu keeps every bit on CPUs; GPUs round otherwise. "
      "batch-split=PIECES cuts a micro-batch and changes roundings",
      set_rewrites,
      rewrites_text};
}

}  // namespace weft::train
