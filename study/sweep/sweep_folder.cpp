#include "study/sweep/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/files/checksum.h"
#include "base/files/durable_file.h"
#include "base/files/json_file.h"
#include "base/files/text_file.h"
#include "runtime/cost/machine_files.h"
#include "runtime/cost/machine_writer.h"
#include "study/sweep/sweep_output.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr int kColumnsVersion = 1;  // of results.csv: another one means other figures under the same names
constexpr const char *kBase = "base.toml", *kResults = "results.csv";
constexpr const char* kOtherFolder = "-o with another folder, or the command that wrote this one";
constexpr std::string_view kFilePrefix = "# file: ";  // of a line that tells a file's checksum
constexpr std::size_t kMostRead = std::size_t{1} << 30;

std::string checksum_text(std::string_view text) {
  Crc32c checksum;
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.text();
}

/// The values that a key has in a sweep.
std::vector<std::string> all_values(const Sweep& sweep, const train::RunConfig& config, const std::string& key,
                                    const std::string train::RunConfig::*member) {
  const auto swept = std::ranges::find(sweep.keys, key, &SweptKey::key);
  if (swept != sweep.keys.end()) return swept->values;
  return {config.*member};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool tells_file(const std::string& line) {
  return line.starts_with(kFilePrefix);
}

/// "# file: perlmutter crc32c e3069283" → "# file: perlmutter"
std::string file_of(const std::string& line) {
  return line.substr(0, line.rfind(" crc32c "));
}

[[noreturn]] void refuse_difference(const fs::path& file, const std::string& found, const std::string& now) {
  throw UserError(fmt::format("{} has the line \"{}\"", file.string(), found),
                  now.empty() ? "no such line" : fmt::format("\"{}\", as this sweep has it", now), kOtherFolder);
}

/// Compares the base of a folder with that of a sweep. Each may know files that the other doesn't have.
void expect_same_base(const fs::path& file, const std::string& before, const std::string& now) {
  std::vector<std::string> old_lines, new_lines;
  std::map<std::string, std::string> files;
  for (const std::string& line : lines_of(now)) {
    if (tells_file(line)) {
      files[file_of(line)] = line;
    } else {
      new_lines.push_back(line);
    }
  }
  for (const std::string& line : lines_of(before)) {
    if (!tells_file(line)) {
      old_lines.push_back(line);
    } else if (const auto same = files.find(file_of(line)); same != files.end() && same->second != line) {
      refuse_difference(file, line, same->second);
    }
  }
  for (std::size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const std::string found = i < old_lines.size() ? old_lines[i] : "", line = i < new_lines.size() ? new_lines[i] : "";
    if (found != line) refuse_difference(file, found, line);
  }
}

void write_all(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw RuntimeFault(fmt::format("writing {} failed: {}", path.string(), std::strerror(errno)));
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

std::string sweep_base(const Sweep& sweep) {
  const train::RunConfig config = shared_config(sweep);
  std::string numbers;
  for (const train::Setting& setting : sweep.settings) {
    if (setting.key.starts_with(kMachinePrefix)) {
      numbers += fmt::format("# fixed: {} = {}\n", setting.key, setting.value);
    }
  }
  std::string files;
  for (const std::string& name : all_values(sweep, config, "machine", &train::RunConfig::machine)) {
    if (name.empty()) continue;
    const std::string text = cost::machine_toml(cost::find_machine(name, cost::machine_folders()));
    files += fmt::format("{}machine {} crc32c {}\n", kFilePrefix, name, checksum_text(text));
  }
  for (const std::string& name : all_values(sweep, config, "profile", &train::RunConfig::profile)) {
    if (name.empty()) continue;
    const std::string text = read_text_file(name, "the profile", kMostRead, "a profile", "--profile with its path");
    files += fmt::format("{}profile {} crc32c {}\n", kFilePrefix, name, checksum_text(text));
  }
  return fmt::format(
      "# The base of a sweep of Weft: its rows differ from it in the columns of results.csv.\n"
      "# columns: version {}\n# noise: {}\n{}{}{}",
      kColumnsVersion, sweep.noise, numbers, files, train::dump_toml(config));
}

SweepFolder::SweepFolder(fs::path folder, const Sweep& sweep)
    : folder_(std::move(folder), kBase, "weft sweep"), sweep_(sweep) {
  write_base();
  if (fs::exists(folder_.path() / kResults)) read_rows();
  write_results(rows_);
  results_ = FileDescriptor(::open((folder_.path() / kResults).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (results_.get() < 0) {
    throw RuntimeFault(
        fmt::format("opening {} failed: {}", (folder_.path() / kResults).string(), std::strerror(errno)));
  }
}

void SweepFolder::write_base() {
  const fs::path file = folder_.path() / kBase;
  std::string base = sweep_base(sweep_);
  if (fs::exists(file)) {
    const std::string before =
        read_text_file(file, "the sweep's base", kMostRead, "a base that weft sweep wrote", kOtherFolder);
    expect_same_base(file, before, base);
    // Files that only the earlier sweep read are kept in mind.
    std::string known;
    for (const std::string& line : lines_of(before)) {
      if (tells_file(line) && base.find(line) == std::string::npos) known += line + "\n";
    }
    base.insert(base.find("# A Weft configuration"), known);
  }
  write_durable(file, base);
}

void SweepFolder::read_rows() {
  const fs::path file = folder_.path() / kResults;
  const auto table =
      read_csv(read_text_file(file, "the sweep's results", kMostRead, "results that weft sweep wrote", kOtherFolder));
  const CsvRow columns = sweep_columns(sweep_);
  if (!table) throw UserError(fmt::format("{} can't be read as CSV", file.string()), "", "remove it to begin again");
  if (table->empty()) return;
  if (table->front() != columns) {
    throw UserError(fmt::format("{} has the columns {}", file.string(), join(table->front())), join(columns),
                    kOtherFolder);
  }
  for (std::size_t i = 1; i < table->size(); ++i) {
    const auto row = sweep_row((*table)[i], sweep_.keys.size());
    if (!row) {
      throw UserError(fmt::format("row {} of {} is no row of a sweep", i, file.string()), join(columns),
                      "remove the row, to have it computed again");
    }
    rows_.push_back(*row);
  }
}

void SweepFolder::write_results(std::span<const SweepRow> rows) const {
  std::string text = csv_line(sweep_columns(sweep_));
  for (const SweepRow& row : rows) text += csv_line(sweep_cells(row));
  write_durable(folder_.path() / kResults, text);
}

void SweepFolder::keep(std::span<const SweepRow> rows) {
  std::string text;
  for (const SweepRow& row : rows) text += csv_line(sweep_cells(row));
  write_all(results_.get(), text, folder_.path() / kResults);
}

void SweepFolder::finish(std::span<const SweepRow> rows) {
  std::vector<SweepRow> all(rows.begin(), rows.end());
  std::set<std::string> written;
  for (const SweepRow& row : rows) written.insert(csv_line(sweep_cells(row)));
  for (const SweepRow& row : rows_) {
    if (!written.contains(csv_line(sweep_cells(row)))) all.push_back(row);
  }
  write_results(all);
  write_durable(folder_.path() / "results.json", indented_json(sweep_json(sweep_, rows).text(), 1) + "\n");
  write_durable(folder_.path() / "plot.svg", sweep_picture(sweep_, rows).svg());
}

}  // namespace weft::study
