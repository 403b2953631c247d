// The folder that `weft compare -o FOLDER` writes for `weft report`: the configuration or graph file, table, each
// policy's step, and causes.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "graph/open_graph.h"
#include "inspect/report/report_page.h"
#include "study/comparison.h"
#include "study/verdict.h"
#include "train/config/config.h"

namespace weft::study {

struct KeptComparison {
  std::string comparison;                  // JSON, as comparison_json() writes it
  std::size_t classes = 1;                 // rank classes of the step: as many views a policy
  std::vector<inspect::ReportView> views;  // by policy, then by class
  std::vector<std::string> causes;         // by view, JSON as causes_json() writes it
  std::vector<std::string> verdict = {};   // on the fastest policy's step; empty: an older folder has none
  std::string graph_svg;                   // graph of the fastest policy; "" if it can't be drawn
  std::string graph_note, graph_view;      // graph_view: the policy's view
};

/// Keeps the policies of `comparison` that have plans. Explains each step, simulated or, of a single class, measured.
/// `settings` finds what else may help the fastest of them; null: nothing else is tried.
KeptComparison keep_comparison(const Comparison& comparison,
                               const std::function<std::vector<Change>(const PolicyStep&)>& settings = nullptr);

/// Does the path name a folder: an existing one, or a name without an ending that isn't a device or a pipe?
bool names_folder(const std::filesystem::path& path);

/// A graph file that was compared.
struct ComparedGraph {
  const graph::OpenGraph& graph;
  std::vector<std::string> flags;  // of the command line, with which the comparison can be repeated
};

/// Which step was compared: a configuration's or a graph file's.
using ComparedStep = std::variant<std::reference_wrapper<const train::RunConfig>, ComparedGraph>;

/// Makes the folder, or replaces one that an earlier comparison left; expect_comparison_folder() refuses others.
void write_comparison(const std::filesystem::path& folder, const ComparedStep& step, const KeptComparison& kept);
void expect_comparison_folder(const std::filesystem::path& folder);

/// Throws UserError if write_comparison() didn't write the folder.
KeptComparison read_comparison(const std::filesystem::path& folder);

inspect::ReportPage comparison_page(KeptComparison kept);

}  // namespace weft::study
