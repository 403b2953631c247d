// The runs of an experiment: jobs that threads take in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status_line.h"

namespace weft::study {

struct JobList {
  std::size_t jobs = 0;
  std::function<std::string(std::size_t job)> name;     // in the status
  std::function<std::int64_t(std::size_t job)> weight;  // of its time among that of all jobs
};

/// Keeps a job's result; runs on one thread at a time.
using Keep = std::function<void()>;

/// Does each job once, and tells which are under way and how many are done: "[2/8] a, b". A job without a Keep, and an
/// exception, which is thrown again, end the work after the jobs that are under way.
void do_jobs(const JobList& list, int threads, const std::function<Keep(std::size_t job)>& work,
             const TellStatus& tell);

}  // namespace weft::study
