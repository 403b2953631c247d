#include "tests/tools/run_command.h"

#include <chrono>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace weft::testing {

CommandResult result_of(ChildProcess& child) {
  const int exit_code = child.wait(std::chrono::minutes(10)).exit_code;
  return {exit_code, child.output(), child.errors()};
}

CommandResult succeeded(CommandResult result) {
  if (result.exit_code == 0) return result;
  throw std::runtime_error("exit code " + std::to_string(result.exit_code) + "\n" + result.output + result.errors);
}

CommandResult run(const std::vector<std::string>& words, const std::string& folder) {
  ChildProcess child(words, {.folder = folder});
  return result_of(child);
}

CommandResult run_weft(const std::vector<std::string>& arguments, const std::string& folder) {
  std::vector<std::string> words{WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words, folder);
}

std::vector<std::string> words_in(const std::string& line) {
  std::istringstream words(line);
  return {std::istream_iterator<std::string>(words), {}};
}

std::vector<std::string> mpi_words(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{WEFT_EXECUTABLE};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return under_mpirun(ranks, words);
}

}  // namespace weft::testing
