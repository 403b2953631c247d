// An experiment: points that become rows, each by itself; the rows as tables, CSV, JSON and a picture; and a folder in
// which it goes on where it was stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/json_object.h"
#include "inspect/drawing/picture.h"
#include "study/columns.h"
#include "train/run/run_folder.h"

namespace weft::study {

/// Keeps a job's result; runs on one thread at a time.
using Keep = std::function<void()>;

struct Job {
  std::string name;                                       // in the status
  std::int64_t weight = 1;                                // of its time among that of all jobs
  std::function<Keep(const TellStatus& tell)> work = {};  // `tell`: how far the job itself is
};

/// Does each job once, in their order, and tells which are under way and how many are done: "[2/8] a, b". A job without
/// a Keep, and an exception, which is thrown again, end the work after the jobs that are under way.
void do_jobs(std::span<const Job> jobs, int threads, const TellStatus& tell);

template <class Row>
using KeepRows = std::function<void(std::span<const Row> rows)>;

template <class Row>
struct Experiment {
  std::vector<Row> points = {};  // rows that lack their figures, in the order of the result
  std::size_t together = 1;      // neighbouring points that are computed at once, such as the seeds of one plan
  int threads = 1;
  /// The words that tell a point from the others.
  std::function<std::vector<std::string>(const Row& point)> name = {};
  /// Of a point's time among that of all points; none: they take equally long.
  std::function<std::int64_t(const Row& point)> weight = {};
  /// Enters the figures. False: a signal stopped it.
  std::function<bool(std::span<Row> rows, const TellStatus& tell)> compute = {};
};

/// The rows of all points. Those of `known` points are taken from there; the others are kept as they are computed, in
/// any order, if there is a `keep`. They don't depend on the number of threads. After a signal, rows that weren't
/// computed are missing.
template <class Row>
std::vector<Row> run(
    const Experiment<Row>& experiment, std::span<const std::type_identity_t<Row>> known = {},
    const KeepRows<std::type_identity_t<Row>>& keep = {}, const TellStatus& tell = [](const Status&) {}) {
  std::map<std::vector<std::string>, const Row*> known_rows;
  for (const Row& row : known) known_rows.emplace(experiment.name(row), &row);
  std::vector<std::optional<Row>> rows(experiment.points.size());
  std::vector<std::vector<std::size_t>> places;  // of the points of a job
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % experiment.together == 0) places.emplace_back();
    const Row& point = experiment.points[i];
    if (const auto before = known_rows.find(experiment.name(point)); before != known_rows.end()) {
      rows[i] = *before->second;
    } else {
      places.back().push_back(i);
    }
  }
  for (const std::vector<std::size_t>& own : places) {
    if (own.empty()) continue;
    Job& job = jobs.emplace_back(Job{.name = join(experiment.name(experiment.points[own.front()]), " "), .weight = 0});
    for (const std::size_t i : own) job.weight += experiment.weight ? experiment.weight(experiment.points[i]) : 1;
    job.work = [&](const TellStatus& tell_job) -> Keep {
      std::vector<Row> found;
      for (const std::size_t i : own) found.push_back(experiment.points[i]);
      if (!experiment.compute(found, tell_job)) return nullptr;
      return [&, found = std::move(found)] {
        if (keep) keep(found);
        for (std::size_t i = 0; i < found.size(); ++i) rows[own[i]] = found[i];
      };
    };
  }
  do_jobs(jobs, experiment.threads, tell);
  std::vector<Row> result;
  for (std::optional<Row>& row : rows) {
    if (row) result.push_back(*std::move(row));
  }
  return result;
}

/// What an experiment found, in the forms in which it is printed and written.
struct Results {
  std::function<StyledText(std::optional<std::size_t> width)> text;  // `width`: columns of the terminal
  std::function<JsonObject()> json;
  std::function<std::string()> csv = {};
  std::function<inspect::Picture()> picture = {};

  /// The content of a file, by its ending.
  std::string file(const std::string& name) const;
};

/// Throws UserError on a file whose ending names no form: .csv, .json or .svg.
void expect_form(const std::string& file);

/// What all results of a folder rest on, as text. Files that it names may differ in their number, not in their content.
struct FolderDescription {
  std::string head = {};
  std::vector<std::string> files = {};  // lines of file_line()
  std::string tail = {};
};

/// "# file: machine perlmutter crc32c e3069283"
std::string file_line(std::string_view name, std::string_view content);

/// A folder in which one command at a time collects results.
class ResultFolder {
 public:
  /// Makes the folder, or opens one that has the file `marker`, by which `command` knows its own, and locks it. Throws
  /// UserError on a file, a folder with other files, or one to which another process writes. A marker that is new is
  /// empty until describe().
  ResultFolder(std::filesystem::path path, std::string_view marker, std::string_view command);

  const std::filesystem::path& path() const { return path_; }

  /// Writes the description to the marker's file, with the files that an earlier command named. Throws UserError naming
  /// the line in which results that are there rest on something else.
  void describe(const FolderDescription& now) const;
  /// A file of results; "" if it isn't there. Throws UserError if it can't be read.
  std::string read(const std::filesystem::path& name) const;
  /// Writes results.csv, results.json and plot.svg.
  void finish(const Results& results) const;

 private:
  std::filesystem::path path_;
  std::string marker_, command_;
  std::unique_ptr<train::FolderLock> lock_;
};

/// The same with rows as lines of results.csv, to which they are appended as they are computed.
template <class Row>
class RowFolder {
 public:
  /// Throws UserError on rows that another experiment left.
  RowFolder(ResultFolder folder, const FolderDescription& description, Columns<Row> columns)
      : folder_(std::move(folder)), columns_(std::move(columns)) {
    folder_.describe(description);
    const std::filesystem::path file = folder_.path() / kRows;
    if (const std::string text = folder_.read(kRows); !text.empty())
      rows_ = columns_.read(text, file.string(), "remove the row or the file, to have it computed again");
    write_durable(file, columns_.csv(rows_));
    lines_ = std::make_unique<AppendedFile>(file);
  }

  /// The rows that the folder had.
  const std::vector<Row>& rows() const { return rows_; }
  void keep(std::span<const Row> rows) {
    std::string text;
    for (const Row& row : rows) text += csv_line(columns_.cells(row));
    lines_->append(text);
  }
  /// Writes the results of `rows`; results.csv has the folder's rows that this experiment doesn't have after them.
  void finish(std::span<const Row> rows, Results results) const {
    std::vector<Row> all(rows.begin(), rows.end());
    std::set<CsvRow> written;
    for (const Row& row : rows) written.insert(columns_.cells(row));
    for (const Row& row : rows_) {
      if (!written.contains(columns_.cells(row))) all.push_back(row);
    }
    results.csv = [&] { return columns_.csv(all); };
    folder_.finish(results);
  }

 private:
  static constexpr const char* kRows = "results.csv";

  ResultFolder folder_;
  Columns<Row> columns_;
  std::vector<Row> rows_;
  std::unique_ptr<AppendedFile> lines_;
};

}  // namespace weft::study
