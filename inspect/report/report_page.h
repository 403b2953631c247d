// One self-contained page that shows steps: a timeline to zoom, the graph linked to it, tables, curves. Nothing is
// loaded from anywhere, and without JavaScript the tables and pictures remain.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inspect/report/step_chart.h"
#include "runtime/plan/recording.h"

namespace weft::inspect {

/// A time that no step can be shorter than.
struct ReportBound {
  std::string name = {};
  double ns = 0;
};

/// Bytes a second that each rank can send along an axis, as a machine's description has it.
struct ReportLinks {
  std::string machine = {};
  std::map<std::string, double> bandwidth = {};  // by axis; empty: not known
};

/// Steps of one policy. The first rank's last step is the one that tables and clicks on the graph mean.
struct ReportView {
  std::string name = {};  // the policy's; unique in its page
  plan::Recording recording = {};
  std::vector<ReportBound> bounds = {};
  ReportLinks links = {};
};

struct ReportFact {
  std::string label = {}, value = {};
};

struct ReportCell {
  ReportCell(std::string shown = {}) : text(std::move(shown)) {}  // NOLINT(google-explicit-constructor): a cell is text
  ReportCell(std::string shown, std::string task_name) : text(std::move(shown)), task(std::move(task_name)) {}
  std::string text;
  std::string task = {};                // selected in the timeline by a click; "": none
  std::string swatch = {};              // a colour that stands before the text; "": none
  std::optional<std::size_t> run = {};  // of the page, opened by a click
};

struct ReportTable {
  std::string title = {};
  std::string note = {};           // a sentence below the title
  std::string picture = {};        // HTML above the rows
  std::string view = {};           // whose tasks its cells name
  std::size_t words = 1;           // leading columns of words, which stand left; numbers stand right
  std::size_t trailing_words = 0;  // so do the last ones
  std::vector<std::string> heads = {};
  std::vector<std::vector<ReportCell>> rows = {};
  std::optional<std::size_t> best = {};  // a row to be set bold
  bool folded = false;                   // opened by a click
};

/// One of several runs on a page: what is its own.
struct ReportRun {
  std::string name = {};  // its view's
  std::string subtitle = {}, note = {};
  std::vector<ReportFact> facts = {};
  std::vector<ReportTable> tables = {};
};

struct ReportPage {
  std::string title = {}, subtitle = {};
  std::vector<std::string> verdict = {};  // a sentence, then what would help most; empty: none
  std::vector<ReportFact> facts = {};
  std::vector<ReportTable> leading = {};  // above the timeline: the policies
  std::vector<ReportView> views = {};     // at least one, each with a rank and a step
  std::string timeline_note = {};
  std::string graph_svg = {};  // ids of its nodes are tasks' names; "": only the note
  std::string graph_note = {};
  std::string graph_view = {};             // in which a click on the graph selects; "": the first
  std::vector<ReportTable> trailing = {};  // below the graph: exposed communication and its causes
  std::vector<StepChart> charts = {};
  std::vector<ReportRun> runs = {};  // several runs, whose curves the charts show together; empty: one run, or none
};

/// The data of a page, as its script reads them: JSON with sorted keys, `<` written \u003c. Times are nanoseconds since
/// the view's first step began, as differences from task to task.
std::string report_data(const ReportPage& page);

/// HTML. Data above 2 MB are compressed. Equal pages give equal bytes, under one version of zlib.
std::string report_html(const ReportPage& page);

}  // namespace weft::inspect
