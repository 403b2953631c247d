#include "study/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>

#include "base/files/checksum.h"
#include "base/files/input_file.h"

namespace weft::study {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "# file: ";
constexpr const char* kOtherFolder = "-o with another folder, or the command that wrote this one";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// "# file: perlmutter crc32c e3069283" → "# file: perlmutter"
std::string file_of(const std::string& line) {
  return line.substr(0, line.rfind(" crc32c "));
}

[[noreturn]] void refuse_difference(const fs::path& file, const std::string& found, const std::string& now) {
  throw UserError(fmt::format("{} has the line \"{}\"", file.string(), found),
                  now.empty() ? "no such line" : fmt::format("\"{}\", as this command has it", now), kOtherFolder);
}

void expect_same_lines(const fs::path& file, std::vector<std::string> before, std::vector<std::string> now) {
  before.resize(std::max(before.size(), now.size()));
  now.resize(before.size());
  const auto [found, line] = std::ranges::mismatch(before, now);
  if (found != before.end()) refuse_difference(file, *found, *line);
}

std::string ending_of(const std::string& file) {
  return fs::path(file).extension().string();
}

}  // namespace

void do_jobs(std::span<const Job> jobs, int threads, const TellStatus& tell) {
  std::mutex mutex;
  std::size_t next = 0, count = 0;
  std::int64_t done = 0, all = 0;
  std::set<std::size_t> under_way;
  std::exception_ptr failure;
  for (const Job& job : jobs) all += job.weight;
  const auto tell_all = [&] {
    std::vector<std::string> names;
    for (const std::size_t job : under_way) names.push_back(jobs[job].name);
    tell({fmt::format("[{}/{}] {}", count, jobs.size(), join(names)), done, all});
  };
  const auto tell_job = [&](const std::string& name, const Status& status) {
    const std::lock_guard lock(mutex);
    // The job's own shares would begin the bar anew with each job.
    tell({fmt::format("[{}/{}] {}: {}", count, jobs.size(), name, status.text), done, all});
  };
  const auto take_jobs = [&] {
    std::unique_lock lock(mutex);
    while (next < jobs.size()) {
      const std::size_t number = next++;
      const Job& job = jobs[number];
      under_way.insert(number);
      tell_all();
      lock.unlock();
      try {
        const Keep keep = job.work([&](const Status& status) { tell_job(job.name, status); });
        lock.lock();
        if (!keep) next = jobs.size();
        if (keep) keep();
        ++count;
        done += job.weight;
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!failure) failure = std::current_exception();
        next = jobs.size();
      }
      under_way.erase(number);
      tell_all();
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(jobs.size(), static_cast<std::size_t>(std::max(1, threads))); ++t) {
    others.emplace_back(take_jobs);
  }
  take_jobs();
  others.clear();  // waits for them
  if (failure) std::rethrow_exception(failure);
}

std::string Results::file(const std::string& name) const {
  const std::string ending = ending_of(name);
  if (ending == ".csv") return csv();
  if (ending == ".svg") return picture().svg();
  return indented_json(json().text(), 1) + "\n";
}

void expect_form(const std::string& file) {
  const std::string ending = ending_of(file);
  if (ending == ".csv" || ending == ".json" || ending == ".svg") return;
  throw UserError(fmt::format("the format of {} is unknown", file), "a file that ends in .csv, .json or .svg",
                  "-o scaling.csv");
}

std::string file_line(std::string_view name, std::string_view content) {
  Crc32c checksum;
  checksum.add(std::as_bytes(std::span(content)));
  return fmt::format("{}{} crc32c {}", kFilePrefix, name, checksum.text());
}

ResultFolder::ResultFolder(fs::path path, std::string_view marker, std::string_view command)
    : path_(std::move(path)), marker_(marker), command_(command) {
  constexpr const char* kFix = "-o with another name";
  std::error_code error;
  const bool existed = fs::exists(path_, error);
  if (existed && !fs::is_directory(path_, error)) {
    throw UserError(fmt::format("{} isn't a folder", path_.string()),
                    fmt::format("a new folder, or one of {}", command), kFix);
  }
  if (existed && !fs::exists(path_ / marker, error) && !fs::is_empty(path_, error)) {
    throw UserError(fmt::format("{} holds other files", path_.string()),
                    fmt::format("a new folder, an empty one or one of {}", command), kFix);
  }
  if (!existed && !fs::create_directories(path_, error)) {
    throw UserError(fmt::format("{} can't be made: {}", path_.string(), error.message()), "a folder for the results",
                    kFix);
  }
  lock_ = std::make_unique<train::FolderLock>(path_, "the folder", kFix);
  if (!fs::exists(path_ / marker_)) write_durable(path_ / marker_, "");
}

std::string ResultFolder::read(const fs::path& name) const {
  constexpr std::size_t kMostRead = std::size_t{1} << 30;
  const fs::path file = path_ / name;
  if (!fs::exists(file)) return "";
  return read_text_file(file, "the file", kMostRead, fmt::format("a file that {} wrote", command_), kOtherFolder);
}

void ResultFolder::describe(const FolderDescription& now) const {
  const fs::path file = path_ / marker_;
  std::vector<std::string> before, files = now.files;
  for (const std::string& line : lines_of(read(marker_))) {
    if (!line.starts_with(kFilePrefix)) {
      before.push_back(line);
      continue;
    }
    const auto same = std::ranges::find(now.files, file_of(line), file_of);
    if (same == now.files.end()) {
      files.push_back(line);
    } else if (*same != line) {
      refuse_difference(file, line, *same);
    }
  }
  const bool is_new = before.empty() || before == std::vector<std::string>{"{}"};
  if (!is_new) expect_same_lines(file, before, lines_of(now.head + now.tail));
  std::string text = now.head;
  for (const std::string& line : files) text += line + "\n";
  write_durable(file, text + now.tail);
}

void ResultFolder::finish(const Results& results) const {
  for (const char* name : {"results.csv", "results.json", "plot.svg"}) write_durable(path_ / name, results.file(name));
}

}  // namespace weft::study
