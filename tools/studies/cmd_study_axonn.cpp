// `weft study axonn`: AxoNN's published runs beside their simulation.
#include <memory>

#include "study/axonn/axonn_study.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/studies/result_flags.h"
#include "tools/studies/search_flags.h"

namespace weft::tools {
namespace {

struct StudyAxonnOptions {
  study::AxonnStudyOptions study;
  int jobs = 0;
  ResultFlags results;
};

int study_axonn(StudyAxonnOptions options) {
  options.results.check();
  options.study.threads = threads_of(options.jobs);
  const study::AxonnStudy study = options.results.with_status(
      [&](const TellStatus& tell) { return study::study_axonn(options.study, tell); }, true);
  const study::Results results = study::results_of(study);
  options.results.write(results);
  options.results.print(results);
  return 0;
}

}  // namespace

Command describe_study_axonn() {
  Command command{"axonn",
                  "AxoNN's published runs beside their simulation, with two constants fitted for each machine"};
  const auto options = std::make_shared<StudyAxonnOptions>();
  command.add(choice_option("--machines", &options->study.machines, "MACHINE",
                            "machines whose runs are simulated; default: perlmutter, frontier and alps",
                            {"perlmutter", "frontier", "alps"}));
  command.add(jobs_option(options->jobs, 1024));
  command.add(svg_option(options->results.svg, "draw the published and the simulated rates over ranks"));
  add_result_flags(command, options->results, "figures");
  command.description =
      "Singh et al. (SC '24) trained models of 5 to 320 billion parameters on Perlmutter, Frontier and Alps. For each "
      "run the best of AxoNN's kind of grids under policy axonn is simulated. Two numbers of each machine, the "
      "efficiency of computing and the congestion of its network, are fitted to the small runs; the large runs are "
      "predicted.";
  command.examples = {{"weft study axonn"}, {"weft study axonn --machines perlmutter --json"}};
  command.run = [options] { return study_axonn(*options); };
  return command;
}

}  // namespace weft::tools
