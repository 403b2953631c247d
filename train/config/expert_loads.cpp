// Lines of experts.jsonl, and what the key expert-load makes of them; see expert_loads.h.
#include "train/config/expert_loads.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/units.h"
#include "train/config/resolved_run.h"

namespace weft::train {
namespace {

constexpr std::string_view kZipf = "zipf:";
constexpr double kMostExponent = 10;

void refuse_load(const RunConfig& config, const std::string& what, std::string_view expected, std::string_view fix) {
  throw UserError(fmt::format("expert-load = {} {}", config.expert_load, what), std::string(expected),
                  std::string(fix));
}

double most_loaded(const LayerLoad& layer, std::int64_t ranks) {
  return cost::most_loaded(std::vector<double>(layer.tokens.begin(), layer.tokens.end()), ranks);
}

/// By layer of the file.
std::vector<double> factors_of(const std::vector<ExpertLoad>& lines, std::int64_t ranks) {
  std::vector<double> factors(lines.front().layers.size());
  double steps = 0;
  for (const ExpertLoad& line : lines) {
    const auto weight = static_cast<double>(line.steps);
    steps += weight;
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] += weight * most_loaded(line.layers[i], ranks);
  }
  for (double& factor : factors) factor /= steps;
  return factors;
}

}  // namespace

void LayerLoad::add(const LayerLoad& other) {
  if (tokens.empty()) tokens.resize(other.tokens.size());
  for (std::size_t e = 0; e < tokens.size(); ++e) tokens[e] += other.tokens[e];
  margin = std::min(margin, other.margin);
  flips += other.flips;
}

void ExpertLoad::add(const ExpertLoad& later) {
  if (layers.empty()) {
    *this = later;
    return;
  }
  last_step = later.last_step, steps += later.steps;
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].add(later.layers[i]);
}

ExpertLoad parse_expert_load(std::string_view line, const std::string& name) {
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const Document document = read_json(line, name, {.fix = "give a run folder, with the files that weft train wrote"});
  const DocumentValue root = document.root();
  ExpertLoad load{.last_step = root["step"].integer(0, kMost), .steps = root["steps"].integer(1, kMost)};
  const std::vector<DocumentValue> layers = root["layers"].items();
  const std::vector<DocumentValue> tokens = root["tokens"].items(layers.size(), "a list for each layer");
  const std::vector<DocumentValue> margins = root["margin"].items(layers.size(), "a number for each layer");
  const auto flips = root.find("flips");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerLoad& layer = load.layers.emplace_back();
    layer.layer = layers[i].integer(0, kMost);
    for (const DocumentValue& count : tokens[i].items()) layer.tokens.push_back(count.integer(0, kMost));
    if (layer.tokens.empty() || layer.tokens.size() != load.layers.front().tokens.size()) {
      tokens[i].refuse("a count for each expert");
    }
    if (!margins[i].is_null()) layer.margin = margins[i].float_number();
    if (flips) layer.flips = flips->items(layers.size(), "a number for each layer")[i].integer(0, kMost);
  }
  return load;
}

std::vector<ExpertLoad> read_expert_loads(const std::filesystem::path& file, std::string_view fix) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  const std::string text = read_text_file(file, "the file", kMostBytes, "the loads of a run's experts", fix);
  std::vector<ExpertLoad> loads;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string name = fmt::format("{} line {}", file.string(), loads.size() + 1);
    ExpertLoad load = parse_expert_load(std::string_view(text).substr(at, end - at), name);
    const auto shape = [](const ExpertLoad& of) {
      return std::pair(of.layers.size(), of.layers.empty() ? 0 : of.layers.front().tokens.size());
    };
    if (load.layers.empty() || (!loads.empty() && shape(load) != shape(loads.front()))) {
      throw UserError(name + " has other layers or experts than the lines before", "lines of one model",
                      "begin a new run in a folder of its own");
    }
    loads.push_back(std::move(load));
  }
  return loads;
}

LoadSetting load_setting(std::string_view text, std::string_view where) {
  using From = LoadSetting::From;
  if (text == "balanced") return {From::balanced};
  if (text.starts_with(kZipf)) {
    const std::string place = fmt::format("{}: the exponent of zipf", where);
    return {From::zipf, parse_number<double>(text.substr(kZipf.size()), place, 0, kMostExponent)};
  }
  if (text.empty()) {
    throw UserError(fmt::format("{} is empty", where), "balanced, zipf:S with an exponent, or experts.jsonl of a run",
                    "leave it out for equal shares");
  }
  return {From::file, 0, std::string(text)};
}

void check_expert_load(const ResolvedRun& run) {
  const RunConfig& config = run.config;
  const ops::ModelConfig& model = config.model;
  if (load_setting(config.expert_load, "expert-load").from == LoadSetting::From::balanced) return;
  if (model.experts == 0) {
    refuse_load(config, "of a model without experts", "a model whose tokens choose experts", "leave it out");
  }
  if (run.profile) {
    refuse_load(config, "with a profile, which was measured under the loads of its run", "costs of a machine",
                "leave the profile or expert-load out");
  }
  if (!run.expert_loads) return;
  if (run.expert_loads->empty()) refuse_load(config, "has no line", "the loads of some steps", "let the run train");
  for (const ExpertLoad& line : *run.expert_loads) {
    std::vector<std::int64_t> layers;
    for (const LayerLoad& layer : line.layers) {
      layers.push_back(layer.layer);
      if (std::ranges::all_of(layer.tokens, [](std::int64_t tokens) { return tokens == 0; })) {
        refuse_load(config, fmt::format("has no token in layer {} at step {}", layer.layer, line.last_step),
                    "tokens in each layer", "leave that line out");
      }
    }
    if (const auto experts = std::ssize(line.layers.front().tokens); experts != model.experts) {
      refuse_load(config, fmt::format("has loads of {} experts", experts),
                  fmt::format("{}, as the model has", model.experts), "give a file of a run of this model");
    }
    if (layers != model.expert_layers()) {
      refuse_load(config, fmt::format("has loads of {} layers", layers.size()),
                  fmt::format("the model's {} layers with experts", model.expert_layers().size()),
                  "give a file of a run of this model");
    }
  }
}

bool sends_row_segments(const RunConfig& config) {
  const CommunicatorKind kind = config.communicator;
  return config.device == DeviceKind::cuda && config.grid.expert > 1 &&
         (kind == CommunicatorKind::automatic || kind == CommunicatorKind::nccl);
}

cost::RowFactors row_factors(const ResolvedRun& run) {
  const RunConfig& config = run.config;
  const LoadSetting setting = load_setting(config.expert_load, "expert-load");
  const std::int64_t ranks = config.grid.expert;
  cost::RowFactors rows{.segments = sends_row_segments(config)};
  if (setting.from == LoadSetting::From::balanced || ranks == 1) return rows;
  if (setting.from == LoadSetting::From::zipf) {
    rows.usual = cost::most_loaded(
        cost::zipf_shares(config.model.experts, config.model.experts_per_token, setting.exponent), ranks);
    return rows;
  }
  const std::vector<double> factors = factors_of(*run.expert_loads, ranks);
  rows.usual = std::accumulate(factors.begin(), factors.end(), 0.0) / static_cast<double>(factors.size());
  if (run.equal_layers) return rows;
  rows.layers.assign(static_cast<std::size_t>(config.model.layers), rows.usual);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    rows.layers.at(static_cast<std::size_t>(run.expert_loads->front().layers[i].layer)) = factors[i];
  }
  return rows;
}

}  // namespace weft::train
