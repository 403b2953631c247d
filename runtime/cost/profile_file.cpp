#include "runtime/cost/profile_file.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/input_file.h"
#include "base/text/json_object.h"

namespace weft::cost {
namespace {

constexpr const char* kFormat = "weft-profile";
constexpr std::int64_t kVersion = 2;
constexpr const char* kMeasureAgain = "`weft profile` makes one";
constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::int64_t kMost = std::int64_t{1} << 40;  // upper limit of every count
constexpr double kLongest = 1e15;                      // ns: eleven days
constexpr double kMostSlowdown = 100;

double time_of(const DocumentValue& value) {
  return value.number({.least = 0, .most = kLongest}, "a time");
}

void read_pools(const DocumentValue& in, Profile& profile) {
  const auto pools = in.find("core_pools");
  if (!pools) return;
  std::set<std::int64_t> seen;
  for (const DocumentValue& item : pools->items()) {
    CorePool& pool = profile.core_pools.emplace_back();
    for (const DocumentValue& rank : item["ranks"].items()) {
      pool.ranks.push_back(rank.integer(0, profile.grid.ranks() - 1));
      if (!seen.insert(pool.ranks.back()).second)
        rank.refuse(fmt::format("repeats {}", pool.ranks.back()), "each rank once");
    }
    pool.cores = item["cores"].integer(1, kMost);
  }
}

// No clock is more precise than a tenth of a nanosecond.
double rounded(double ns) {
  return std::round(ns * 10) / 10;
}

}  // namespace

std::string profile_json(const Profile& profile) {
  JsonArray entries, slowdowns;
  for (const ProfileEntry& entry : profile.entries) {
    entries.add(JsonObject()
                    .add("signature", entry.signature)
                    .add("ns", rounded(entry.ns))
                    .add("deviation_ns", rounded(entry.deviation_ns))
                    .add("samples", entry.samples)
                    .add("cpu_ns", rounded(entry.cpu_ns))
                    .add("beside_ns", rounded(entry.beside_ns)));
  }
  for (const Slowdown& slowdown : profile.slowdowns) {
    slowdowns.add(JsonObject()
                      .add("compute", slowdown.compute)
                      .add("collective", slowdown.collective)
                      .add("factor", slowdown.factor));
  }
  JsonObject json;
  json.add("format", kFormat).add("version", kVersion).add("machine", profile.machine);
  json.add("grid", JsonArray{profile.grid.x, profile.grid.y, profile.grid.z, profile.grid.data});
  if (profile.grid.pipe > 1) json.add("pipe", profile.grid.pipe);
  json.add("threads", profile.threads).add("computing_factor", profile.computing_factor);
  if (!profile.core_pools.empty()) {
    JsonArray pools;
    for (const CorePool& pool : profile.core_pools) {
      pools.add(JsonObject().add("ranks", pool.ranks).add("cores", pool.cores));
    }
    json.add("core_pools", pools);
  }
  return json_lines(json.add("entries", entries).add("slowdowns", slowdowns).text());
}

Profile parse_profile(std::string_view json_text, const std::string& name) {
  const Document document = read_json(json_text, name, {.fix = kMeasureAgain});
  const DocumentValue in = document.of_format("a profile", kFormat, kVersion);
  Profile profile;
  profile.machine = in["machine"].text();
  const auto sizes = in["grid"].items(graph::kAxes.size(), "the sizes of x, y, z and data");
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < graph::kAxes.size(); ++i) {
    const std::int64_t along = sizes[i].integer(1, kMost);
    if (along > kMost / ranks) in["grid"].refuse(fmt::format("at most {} ranks", kMost));
    ranks *= along;
    profile.grid.on(graph::kAxes[i]) = along;
  }
  if (const auto pipe = in.find("pipe")) profile.grid.pipe = pipe->integer(1, kMost / ranks);
  profile.threads = in["threads"].integer(1, kMost);
  profile.computing_factor = time_of(in["computing_factor"]);
  read_pools(in, profile);
  std::set<std::string> seen;
  for (const DocumentValue& item : in["entries"].items()) {
    ProfileEntry entry;
    entry.signature = item["signature"].text();
    entry.ns = time_of(item["ns"]);
    entry.deviation_ns = time_of(item["deviation_ns"]);
    entry.samples = item["samples"].integer(0, kMost);
    entry.cpu_ns = time_of(item["cpu_ns"]);
    entry.beside_ns = time_of(item["beside_ns"]);
    if (!seen.insert(entry.signature).second) item.refuse("repeats " + entry.signature, "each signature once");
    profile.entries.push_back(std::move(entry));
  }
  std::set<std::pair<std::string, std::string>> pairs;
  for (const DocumentValue& item : in["slowdowns"].items()) {
    const Slowdown slowdown{item["compute"].text(), item["collective"].text(),
                            item["factor"].number({.least = 1, .most = kMostSlowdown}, "a factor")};
    if (!pairs.emplace(slowdown.compute, slowdown.collective).second) {
      item.refuse(fmt::format("repeats {} beside {}", slowdown.compute, slowdown.collective), "each pair once");
    }
    profile.slowdowns.push_back(slowdown);
  }
  return profile;
}

Profile load_profile(const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kLargestFile) {
    throw UserError(fmt::format("{} is larger than {} bytes", path, kLargestFile),
                    "a file that `weft profile` has written", kMeasureAgain);
  }
  return parse_profile(file.text(), path);
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

}  // namespace weft::cost
