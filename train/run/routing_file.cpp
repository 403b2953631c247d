// A line of JSON, and behind it the numbers of each step, of 16 bits, little-endian as the CPUs that Weft runs on.
#include "train/run/routing_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/hash.h"
#include "base/text/json_object.h"
#include "ops/layer_set.h"
#include "train/config/config_table.h"

namespace weft::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRoutingFormat = "weft-routing";
constexpr std::int64_t kRoutingVersion = 1, kMostOfNumber = 1'000'000'000;
constexpr std::size_t kLongestInfo = 1 << 20;
constexpr const char* kRoutingFix = "--record-routing in a run of this model, data and batch writes one";

std::string info_line(const RoutingInfo& info) {
  return JsonObject()
             .add("format", kRoutingFormat)
             .add("version", kRoutingVersion)
             .add("model", info.model)
             .add("layers", info.layers)
             .add("experts", info.experts)
             .add("experts_per_token", info.choices)
             .add("data", hex_fingerprint(info.data))
             .add("packing", info.packing)
             .add("seed", info.seed)
             .add("global_batch", info.sequences)
             .add("seq_len", info.seq_len)
             .add("first_step", info.first_step)
             .add("first_sequence", info.first_sequence)
             .text() +
         "\n";
}

RoutingInfo parse_info(std::string_view line, const std::string& name) {
  const Document document = read_json(line, name, {.fix = kRoutingFix});
  const DocumentValue root = document.of_format("recorded routing", kRoutingFormat, kRoutingVersion);
  root.only({"format", "version", "model", "layers", "experts", "experts_per_token", "data", "packing", "seed",
             "global_batch", "seq_len", "first_step", "first_sequence"});
  RoutingInfo info;
  info.model = root["model"].text();
  for (const DocumentValue& layer : root["layers"].items()) {
    info.layers.push_back(layer.integer(0, ops::kMostLayers - 1));
  }
  info.experts = root["experts"].integer(1, ops::kMostExperts);
  info.choices = root["experts_per_token"].integer(1, info.experts);
  const auto digest = parse_hex_fingerprint(root["data"].text());
  if (!digest) root["data"].refuse(kHexFingerprint);
  info.data = *digest;
  info.packing = root["packing"].text();
  info.seed = root["seed"].count();
  info.sequences = root["global_batch"].integer(1, kMostOfNumber);
  info.seq_len = root["seq_len"].integer(1, kMostOfNumber);
  info.first_step = root["first_step"].integer(0, kMostOfNumber);
  info.first_sequence = root["first_sequence"].count();
  constexpr double kMostNumbers = 1e11;
  if (static_cast<double>(info.sequences) * static_cast<double>(info.seq_len) *
          static_cast<double>(info.choices * std::ssize(info.layers)) >
      kMostNumbers) {
    root.refuse("has steps of too many choices", "a step that a machine could have run");
  }
  return info;
}

/// The first line of a file; "" if it has none of a possible length.
std::string first_line_of(const InputFile& file) {
  std::string line(std::min<std::uint64_t>(file.size(), kLongestInfo), '\0');
  file.read(0, std::as_writable_bytes(std::span(line)));
  const std::size_t end = line.find('\n');
  return end == std::string::npos ? "" : line.substr(0, end);
}

// What a person may have changed, by the names of keys where they have some.
std::vector<std::pair<std::string_view, std::string>> facts_of_routing(const RoutingInfo& info) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {{"model", info.model},
          {"layers with experts", to_string(ops::LayerSet(info.layers))},
          {"model.experts", number(info.experts)},
          {"model.experts-per-token", number(info.choices)},
          {"seq-len", number(info.seq_len)},
          {"global-batch", number(info.sequences)},
          {"packing", info.packing},
          {"seed", number(info.seed)},
          {"data digest", hex_fingerprint(info.data)}};
}

/// The sequence with which a run's `step` begins.
std::uint64_t sequence_of(const RoutingInfo& info, std::int64_t step) {
  return info.first_sequence + static_cast<std::uint64_t>((step - info.first_step) * info.sequences);
}

/// The file as it has to be when a run's first step is done: with the choices of the steps before it.
const fs::path& prepared_recording(const fs::path& path, const RoutingInfo& run) {
  if (run.first_step > 0 && fs::exists(path)) {
    const RoutingFile before(path);
    fs::resize_file(path, before.bytes_before(run.first_step));
  } else {
    write_durable(path, info_line(run), Named::by_person);
  }
  return path;
}

}  // namespace

RoutingInfo routing_info(const RunConfig& config, std::uint64_t data, std::int64_t first_step,
                         std::uint64_t first_sequence) {
  const ops::ModelConfig& model = config.model;
  return {.model = fmt::format("{} of {} layers, hidden {}, vocabulary {}", ops::to_string(model.family), model.layers,
                               model.hidden, model.vocab),
          .layers = model.expert_layers(),
          .experts = model.experts,
          .choices = model.experts_per_token,
          .data = data,
          .packing = find_key("packing", "").get(config),
          .seed = config.seed,
          .sequences = config.global_batch,
          .seq_len = config.seq_len,
          .first_step = first_step,
          .first_sequence = first_sequence};
}

RoutingFile::RoutingFile(fs::path path) : file_(std::move(path)) {
  const std::string line = first_line_of(file_);
  if (line.empty())
    throw UserError(in_quotes(file_.path()) + " is no recorded routing", "a line of JSON first", kRoutingFix);
  info_ = parse_info(line, file_.path().string());
  begin_ = line.size() + 1;
}

std::int64_t RoutingFile::end_step() const {
  return info_.first_step + static_cast<std::int64_t>((file_.size() - begin_) / (2 * info_.size()));
}

std::uint64_t RoutingFile::bytes_before(std::int64_t step) const {
  return begin_ + static_cast<std::uint64_t>(step - info_.first_step) * 2 * info_.size();
}

void RoutingFile::expect_fits(const RoutingInfo& run) const {
  const auto theirs = facts_of_routing(info_), ours = facts_of_routing(run);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i].second == ours[i].second) continue;
    throw UserError(
        fmt::format("{} was recorded with {} = {}", in_quotes(file_.path()), theirs[i].first, theirs[i].second),
        fmt::format("{}, as this run has it", ours[i].second), kRoutingFix);
  }
  if (sequence_of(info_, run.first_step) != run.first_sequence) {
    throw UserError(fmt::format("{} has sequence {} first in step {}", in_quotes(file_.path()),
                                sequence_of(info_, run.first_step), run.first_step),
                    fmt::format("sequence {}, as this run has it", run.first_sequence), kRoutingFix);
  }
}

void RoutingFile::expect_steps(const RoutingInfo& run, std::int64_t end) const {
  if (info_.first_step <= run.first_step && end <= end_step()) return;
  throw UserError(
      fmt::format(
          "{} has the choices of {}", in_quotes(file_.path()),
          end_step() > info_.first_step ? fmt::format("steps {} to {}", info_.first_step, end_step() - 1) : "no step"),
      fmt::format("those of steps {} to {}", run.first_step, end - 1),
      end_step() > run.first_step ? fmt::format("--steps {}, or record a longer run", end_step())
                                  : "record a run that has these steps");
}

Choices RoutingFile::read(std::int64_t step) const {
  Choices choices(info_.size());
  file_.read(bytes_before(step), std::as_writable_bytes(std::span(choices)));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const bool follows = i % static_cast<std::size_t>(info_.choices) == 0 || choices[i - 1] < choices[i];
    if (follows && choices[i] < info_.experts) continue;
    throw RuntimeFault(fmt::format("{}: number {} of step {} is no choice of {} of {} experts", in_quotes(file_.path()),
                                   i, step, info_.choices, info_.experts));
  }
  return choices;
}

void expect_recordable(const fs::path& path, const RoutingInfo& run) {
  expect_writable(path, "--record-routing with another path");
  if (run.first_step == 0 || !fs::exists(path)) return;
  const RoutingFile before(path);
  before.expect_fits(run);
  if (before.info().first_step <= run.first_step && run.first_step <= before.end_step()) return;
  throw UserError(fmt::format("{} has the choices of steps {} to {}", in_quotes(path), before.info().first_step,
                              before.end_step() - 1),
                  fmt::format("all steps before {}, with which this run goes on", run.first_step),
                  "--record-routing with another path");
}

RoutingRecorder::RoutingRecorder(const fs::path& path, const RoutingInfo& run)
    : file_(behind_links(prepared_recording(path, run))) {}

void RoutingRecorder::append(const Choices& choices) {
  file_.append({reinterpret_cast<const char*>(choices.data()), choices.size() * sizeof choices.front()});
}

}  // namespace weft::train
