#include "runtime/cost/profile_file.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/json_file.h"
#include "base/files/mapped_file.h"

namespace weft {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "weft-profile";
constexpr std::int64_t kVersion = 2;
constexpr const char* kMeasureAgain = "`weft profile` makes one";
constexpr std::size_t kLargestFile = std::size_t{64} << 20;
constexpr std::int64_t kMostRanks = std::int64_t{1} << 40;
constexpr double kLongest = 1e15;  // ns: eleven days
constexpr double kMostSlowdown = 100;

[[noreturn]] void refuse(const std::string& found, const std::string& expected) {
  throw UserError(found, expected, kMeasureAgain);
}

const json& member(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) refuse(fmt::format("{} has no \"{}\"", where, key), "a complete profile");
  return *found;
}

std::string text_of(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_string()) refuse(fmt::format("{}: \"{}\" is {}", where, key, value.dump()), "a text");
  return value.get<std::string>();
}

double time_of(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_number() || !std::isfinite(value.get<double>()) || value.get<double>() < 0 ||
      value.get<double>() > kLongest) {
    refuse(fmt::format("{}: \"{}\" is {}", where, key, value.dump()), fmt::format("a time from 0 to {} ns", kLongest));
  }
  return value.get<double>();
}

std::int64_t count_of(const json& object, const char* key, std::int64_t least, const std::string& where) {
  const json& value = member(object, key, where);
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (!value.is_number_integer() || value.get<double>() < static_cast<double>(least) ||
      value.get<double>() > static_cast<double>(kMost)) {
    refuse(fmt::format("{}: \"{}\" is {}", where, key, value.dump()),
           fmt::format("an integer from {} to {}", least, kMost));
  }
  return value.get<std::int64_t>();
}

double factor_of(const json& object, const char* key, const std::string& where) {
  const json& value = member(object, key, where);
  if (!value.is_number() || !(value.get<double>() >= 1 && value.get<double>() <= kMostSlowdown)) {
    refuse(fmt::format("{}: \"{}\" is {}", where, key, value.dump()),
           fmt::format("a factor from 1 to {}", kMostSlowdown));
  }
  return value.get<double>();
}

/// The objects of a list, each with what messages call it: "p.json: entry 3".
std::vector<std::pair<std::string, const json&>> objects_of(const json& document, const char* key, const char* singular,
                                                            const std::string& name) {
  const json& list = member(document, key, name);
  if (!list.is_array()) refuse(fmt::format("{}: \"{}\" is no list", name, key), "a list");
  std::vector<std::pair<std::string, const json&>> objects;
  for (const json& item : list) {
    std::string where = fmt::format("{}: {} {}", name, singular, objects.size() + 1);
    if (!item.is_object()) refuse(where + " is no object", "an object");
    objects.emplace_back(std::move(where), item);
  }
  return objects;
}

// Nanoseconds with a tenth are more than any clock knows.
double rounded(double ns) {
  return std::round(ns * 10) / 10;
}

}  // namespace

std::string profile_json(const Profile& profile) {
  ordered_json document;
  document["format"] = kFormat;
  document["version"] = kVersion;
  document["machine"] = profile.machine;
  document["grid"] = {profile.grid.x, profile.grid.y, profile.grid.z, profile.grid.data};
  document["threads"] = profile.threads;
  document["computing_factor"] = profile.computing_factor;
  document["entries"] = ordered_json::array();
  for (const ProfileEntry& entry : profile.entries) {
    document["entries"].push_back({{"signature", entry.signature},
                                   {"ns", rounded(entry.ns)},
                                   {"deviation_ns", rounded(entry.deviation_ns)},
                                   {"samples", entry.samples},
                                   {"cpu_ns", rounded(entry.cpu_ns)},
                                   {"beside_ns", rounded(entry.beside_ns)}});
  }
  document["slowdowns"] = ordered_json::array();
  for (const Slowdown& slowdown : profile.slowdowns) {
    document["slowdowns"].push_back(
        {{"compute", slowdown.compute}, {"collective", slowdown.collective}, {"factor", slowdown.factor}});
  }
  return json_lines(document);
}

Profile parse_profile(std::string_view json_text, const std::string& name) {
  const json document = parse_json(json_text, name);
  if (!document.is_object() || document.value("format", json()) != json(kFormat)) {
    refuse(name + " is no profile", fmt::format("JSON with \"format\": \"{}\"", kFormat));
  }
  if (document.value("version", json()) != json(kVersion)) {
    refuse(fmt::format("{} is of version {}", name, document.value("version", json()).dump()),
           fmt::format("version {}", kVersion));
  }
  Profile profile;
  profile.machine = text_of(document, "machine", name);
  const json& grid = member(document, "grid", name);
  if (!grid.is_array() || grid.size() != kAxes.size()) {
    refuse(fmt::format("{}: \"grid\" is {}", name, grid.dump()), "the sizes of x, y, z and data");
  }
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < kAxes.size(); ++i) {
    const json size = {{"grid", grid[i]}};
    const std::int64_t along = count_of(size, "grid", 1, name);
    if (along > kMostRanks / ranks) {
      refuse(fmt::format("{}: \"grid\" is {}", name, grid.dump()), fmt::format("at most {} ranks", kMostRanks));
    }
    ranks *= along;
    profile.grid.on(kAxes[i]) = along;
  }
  profile.threads = count_of(document, "threads", 1, name);
  profile.computing_factor = time_of(document, "computing_factor", name);
  std::set<std::string> seen;
  for (const auto& [where, item] : objects_of(document, "entries", "entry", name)) {
    ProfileEntry entry;
    entry.signature = text_of(item, "signature", where);
    entry.ns = time_of(item, "ns", where);
    entry.deviation_ns = time_of(item, "deviation_ns", where);
    entry.samples = count_of(item, "samples", 0, where);
    entry.cpu_ns = time_of(item, "cpu_ns", where);
    entry.beside_ns = time_of(item, "beside_ns", where);
    if (!seen.insert(entry.signature).second) refuse(where + " repeats " + entry.signature, "each signature once");
    profile.entries.push_back(std::move(entry));
  }
  std::set<std::pair<std::string, std::string>> pairs;
  for (const auto& [where, item] : objects_of(document, "slowdowns", "slowdown", name)) {
    const Slowdown slowdown{text_of(item, "compute", where), text_of(item, "collective", where),
                            factor_of(item, "factor", where)};
    if (!pairs.emplace(slowdown.compute, slowdown.collective).second) {
      refuse(fmt::format("{} repeats {} beside {}", where, slowdown.compute, slowdown.collective), "each pair once");
    }
    profile.slowdowns.push_back(slowdown);
  }
  return profile;
}

Profile load_profile(const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kLargestFile) {
    refuse(fmt::format("{} is larger than {} bytes", path, kLargestFile), "a file that `weft profile` has written");
  }
  return parse_profile({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
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

}  // namespace weft
