#include "study/sweep/sweep_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "base/files/durable_file.h"
#include "base/files/json_file.h"
#include "base/files/text_file.h"
#include "runtime/cost/machine_files.h"
#include "runtime/cost/machine_writer.h"
#include "study/sweep/sweep_output.h"

namespace weft::study {
namespace {

constexpr int kColumnsVersion = 1;  // of results.csv: another one means other figures under the same names
constexpr const char *kBase = "base.toml", *kResults = "results.csv";
constexpr std::size_t kMostRead = std::size_t{1} << 30;

/// The values that a key has in a sweep, without empty ones.
std::vector<std::string> all_values(const Sweep& sweep, const std::string& key, const std::string& configured) {
  const auto swept = std::ranges::find(sweep.keys, key, &SweptKey::key);
  std::vector<std::string> values = {configured};
  if (swept != sweep.keys.end()) values = swept->values;
  std::erase(values, "");
  return values;
}

}  // namespace

FolderDescription sweep_base(const Sweep& sweep) {
  const train::RunConfig config = shared_config(sweep);
  FolderDescription base{.tail = train::dump_toml(config)};
  base.head = fmt::format(
      "# The base of a sweep of Weft: its rows differ from it in the columns of results.csv.\n"
      "# columns: version {}\n# noise: {}\n",
      kColumnsVersion, sweep.noise);
  for (const train::Setting& setting : sweep.settings) {
    if (!setting.key.starts_with(kMachinePrefix)) continue;
    base.head += fmt::format("# fixed: {} = {}\n", setting.key, setting.value);
  }
  for (const std::string& name : all_values(sweep, "machine", config.machine)) {
    const std::string text = cost::machine_toml(cost::find_machine(name, cost::machine_folders()));
    base.files.push_back(file_line("machine " + name, text));
  }
  for (const std::string& name : all_values(sweep, "profile", config.profile)) {
    const std::string text = read_text_file(name, "the profile", kMostRead, "a profile", "--profile with its path");
    base.files.push_back(file_line("profile " + name, text));
  }
  return base;
}

SweepFolder::SweepFolder(std::filesystem::path folder, const Sweep& sweep)
    : folder_(std::move(folder), kBase, "weft sweep"), sweep_(sweep), columns_(sweep_columns(sweep)) {
  folder_.describe(sweep_base(sweep));
  const std::filesystem::path file = folder_.path() / kResults;
  if (const std::string text = folder_.read(kResults); !text.empty()) {
    rows_ = columns_.read(text, file.string(), "remove the row or the file, to have it computed again");
  }
  write_durable(file, columns_.csv(rows_));
  results_.emplace(file);
}

void SweepFolder::keep(std::span<const SweepRow> rows) {
  std::string text;
  for (const SweepRow& row : rows) text += csv_line(columns_.cells(row));
  results_->append(text);
}

void SweepFolder::finish(std::span<const SweepRow> rows) {
  std::vector<SweepRow> all(rows.begin(), rows.end());
  std::set<CsvRow> written;
  for (const SweepRow& row : rows) written.insert(columns_.cells(row));
  std::ranges::copy_if(rows_, std::back_inserter(all),
                       [&](const SweepRow& row) { return !written.contains(columns_.cells(row)); });
  write_durable(folder_.path() / kResults, columns_.csv(all));
  write_durable(folder_.path() / "results.json", indented_json(sweep_json(sweep_, rows).text(), 1) + "\n");
  write_durable(folder_.path() / "plot.svg", sweep_picture(sweep_, rows).svg());
}

}  // namespace weft::study
