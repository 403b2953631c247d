// `weft study axonn`: AxoNN's published runs beside their simulation.
#include <memory>
#include <string>
#include <vector>

#include "base/files/durable_file.h"
#include "base/printable.h"
#include "base/status_line.h"
#include "base/text/text_table.h"
#include "study/axonn/axonn_study.h"
#include "study/axonn/axonn_study_output.h"
#include "tools/command_line/commands.h"
#include "tools/command_line/shared_options.h"
#include "tools/studies/search_flags.h"

namespace weft::tools {
namespace {

struct StudyAxonnOptions {
  study::AxonnStudyOptions study;
  std::int64_t candidates = 6;
  int jobs = 0;
  std::string svg;
  bool json = false, quiet = false;
};

int study_axonn(StudyAxonnOptions options) {
  if (!options.svg.empty()) expect_writable(options.svg);
  options.study.candidates = static_cast<std::size_t>(options.candidates);
  options.study.threads = threads_of(options.jobs);
  const study::AxonnStudy study = [&] {
    StatusLine line(!options.json && !options.quiet);
    return study::study_axonn(options.study, [&](const Status& status) { line.tell(status); });
  }();
  if (!options.svg.empty()) write_durable(options.svg, study::axonn_picture(study).svg(), Named::by_person);
  if (options.json) {
    say("{}\n", study::axonn_study_json(study).text());
  } else {
    say(stdout, study::axonn_study_text(study, output_width()));
  }
  return 0;
}

}  // namespace

Command describe_study_axonn() {
  Command command{"axonn", "AxoNN's published runs beside their simulation, with two constants a machine fitted"};
  const auto options = std::make_shared<StudyAxonnOptions>();
  command.add(choice_option("--machines", &options->study.machines, "MACHINE",
                            "machines whose runs are simulated; default: perlmutter, frontier and alps",
                            {"perlmutter", "frontier", "alps"}));
  command.add(number_option("--candidates", &options->candidates,
                            "grids of each run of which the fitted constants choose the fastest", 1, 1000));
  command.add(jobs_option(options->jobs, 1024));
  command.add(svg_option(options->svg, "draw the published and the simulated rates over ranks"));
  command.add({.names = "--json", .target = &options->json, .help = "print the figures as JSON"});
  command.add({.names = "--quiet", .target = &options->quiet, .help = "print only the tables and errors"});
  command.description =
      "Singh et al. (SC '24) trained models of 5 to 320 billion parameters on Perlmutter, Frontier and Alps. For each "
      "run "
      "the best of AxoNN's kind of grids under policy axonn is simulated. Two numbers of each machine, the efficiency "
      "of "
      "computing and the congestion of its network, are fitted to the small runs; the large runs are predicted.";
  command.examples = {{"weft study axonn"}, {"weft study axonn --machines perlmutter --json"}};
  command.run = [options] { return study_axonn(*options); };
  return command;
}

}  // namespace weft::tools
