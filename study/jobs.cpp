#include "study/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"

namespace weft::study {

void do_jobs(const JobList& list, int threads, const std::function<Keep(std::size_t job)>& work,
             const TellStatus& tell) {
  std::mutex mutex;
  std::size_t next = 0, count = 0;
  std::int64_t done = 0, all = 0;
  std::set<std::size_t> under_way;
  std::exception_ptr failure;
  for (std::size_t job = 0; job < list.jobs; ++job) all += list.weight(job);
  const auto tell_all = [&] {
    std::vector<std::string> names;
    for (const std::size_t job : under_way) names.push_back(list.name(job));
    tell({fmt::format("[{}/{}] {}", count, list.jobs, join(names)), done, all});
  };
  const auto take_jobs = [&] {
    std::unique_lock lock(mutex);
    while (next < list.jobs) {
      const std::size_t job = next++;
      under_way.insert(job);
      tell_all();
      lock.unlock();
      try {
        const Keep keep = work(job);
        lock.lock();
        if (!keep) next = list.jobs;
        if (keep) keep();
        ++count;
        done += list.weight(job);
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!failure) failure = std::current_exception();
        next = list.jobs;
      }
      under_way.erase(job);
      tell_all();
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < std::min(list.jobs, static_cast<std::size_t>(std::max(1, threads))); ++t) {
    others.emplace_back(take_jobs);
  }
  take_jobs();
  others.clear();  // waits for them
  if (failure) std::rethrow_exception(failure);
}

}  // namespace weft::study
