#include "inspect/drawing/render.h"

#include <fmt/format.h>
#include <gvc.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace weft::inspect {
namespace {

struct CloseGraph {
  void operator()(Agraph_t* graph) const { agclose(graph); }
};
struct FreeContext {
  void operator()(GVC_t* context) const { gvFreeContext(context); }
};
struct FreeRendered {
  void operator()(char* data) const { gvFreeRenderData(data); }
};

// Messages of Graphviz are kept instead of being printed to stderr; the earlier level returns at the end.
class QuietErrors {
 public:
  QuietErrors() : level_(agseterr(AGMAX)) {}
  ~QuietErrors() { agseterr(level_); }
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

  static std::string last() {
    const char* message = aglasterr();
    std::string_view text = message == nullptr ? "" : message;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    return std::string(text);
  }

 private:
  agerrlevel_t level_;
};

class GraphvizLayout {
 public:
  GraphvizLayout(GVC_t* context, Agraph_t* graph, const char* engine) : context_(context), graph_(graph) {
    if (gvLayout(context_, graph_, engine) == 0) return;
    throw UserError(fmt::format("Graphviz can't lay out the drawing ({})", QuietErrors::last()),
                    fmt::format("the layout engine '{}' and its list of plugins, config6a", engine),
                    "apt-get install graphviz");
  }
  ~GraphvizLayout() { gvFreeLayout(context_, graph_); }
  GraphvizLayout(const GraphvizLayout&) = delete;
  GraphvizLayout& operator=(const GraphvizLayout&) = delete;

 private:
  GVC_t* context_;
  Agraph_t* graph_;
};

// The length is an unsigned int up to Graphviz 12 and a size_t from 13 on: deduced from the function itself.
template <class Length>
std::string rendered(int (*render)(GVC_t*, Agraph_t*, const char*, char**, Length*), GVC_t* context, Agraph_t* graph,
                     const char* format) {
  char* data = nullptr;
  Length length = 0;
  const int status = render(context, graph, format, &data, &length);
  const std::unique_ptr<char, FreeRendered> owner(data);
  if (status != 0 || data == nullptr) {
    throw UserError(fmt::format("Graphviz can't write {} ({})", format, QuietErrors::last()),
                    "its plugins 'core' and 'pango'", "apt-get install graphviz");
  }
  return std::string(data, static_cast<std::size_t>(length));
}

constexpr double kPointsAnInch = 72, kDotsAPoint = 2;
constexpr const char* kPng = "png:cairo:cairo";

void set(Agraph_t* graph, const char* name, std::string value) {
  agattr(graph, AGRAPH, const_cast<char*>(name), value.data());  // declares and sets; takes a copy
}

// To be called before the drawing is rendered; after its layout if the size comes from the layout.
void set_resolution(Agraph_t* graph, double width, double height) {
  const double most = kMaxImageSide / std::max({width, height, 1.0});
  set(graph, "dpi", fmt::format("{:.2f}", kPointsAnInch * std::min(kDotsAPoint, most)));
}

/// Graphviz is one for all drawings: its pango plugin remembers the font of the text before by a pointer into the
/// context, and would read it after a context has gone. Its holder is alone with it.
class Graphviz {
 public:
  Graphviz() : lock_(one_at_a_time()), context_(shared()) {
    if (context_ == nullptr)
      throw UserError("Graphviz doesn't start", "an installed Graphviz", "apt-get install graphviz");
  }
  GVC_t* context() const { return context_; }

 private:
  static std::mutex& one_at_a_time() {
    static std::mutex mutex;
    return mutex;
  }
  static GVC_t* shared() {
    static const std::unique_ptr<GVC_t, FreeContext> context(gvContext());
    return context.get();
  }

  std::lock_guard<std::mutex> lock_;
  QuietErrors quiet_;
  GVC_t* context_;
};

using GraphHandle = std::unique_ptr<Agraph_t, CloseGraph>;

const char* engine_of(GraphLayout layout) {
  return layout == GraphLayout::blocks ? "osage" : "dot";
}

GraphHandle parsed(const std::string& dot, GraphLayout layout) {
  GraphHandle graph(agmemread(dot.c_str()));
  if (!graph) {
    throw UserError(fmt::format("this is no graph that Graphviz can read ({})", QuietErrors::last()), "DOT text", "");
  }
  if (layout == GraphLayout::blocks) {
    set(graph.get(), "splines", "line");
    set(graph.get(), "packmode", "array_it");  // of all clusters: rows of equal tops in the order of the text
    agset(graph.get(), const_cast<char*>("packmode"), const_cast<char*>("array_il1"));  // which are one column
    return graph;
  }
  const auto nodes = static_cast<std::size_t>(agnnodes(graph.get()));
  if (nodes > kMaxRenderNodes) {
    throw UserError(fmt::format("the drawing has {} nodes", nodes), fmt::format("at most {}", kMaxRenderNodes),
                    "collapse the layers, or write the DOT file and run dot yourself");
  }
  return graph;
}

}  // namespace

std::string render_svg(const std::string& dot, GraphLayout layout) {
  const Graphviz graphviz;
  const GraphHandle graph = parsed(dot, layout);
  const GraphvizLayout laid_out(graphviz.context(), graph.get(), engine_of(layout));
  return rendered(gvRenderData, graphviz.context(), graph.get(), "svg:svg:core");
}

std::string render_png(const std::string& dot, GraphLayout layout) {
  const Graphviz graphviz;
  const GraphHandle graph = parsed(dot, layout);
  const GraphvizLayout laid_out(graphviz.context(), graph.get(), engine_of(layout));
  double left = 0, bottom = 0, right = 0, top = 0;
  char* box = agget(graph.get(), const_cast<char*>("bb"));
  if (box != nullptr) std::sscanf(box, "%lf,%lf,%lf,%lf", &left, &bottom, &right, &top);
  set_resolution(graph.get(), right - left, top - bottom);
  return rendered(gvRenderData, graphviz.context(), graph.get(), kPng);
}

// The shapes are the background of a graph with two invisible nodes in its corners.
std::string render_png(const Picture& picture) {
  const Graphviz graphviz;
  const GraphHandle graph(agopen(const_cast<char*>("picture"), Agdirected, nullptr));
  const std::string corner = fmt::format("{:.2f},{:.2f}", picture.width(), picture.height());
  set(graph.get(), "bb", "0,0," + corner);
  set(graph.get(), "pad", "0");
  set(graph.get(), "_background", picture.xdot());
  set_resolution(graph.get(), picture.width(), picture.height());
  for (const auto& [name, value] : {std::pair("pos", "0,0"), std::pair("style", "invis"), std::pair("label", ""),
                                    std::pair("width", "0.01"), std::pair("height", "0.01")}) {
    agattr(graph.get(), AGNODE, const_cast<char*>(name), const_cast<char*>(value));
  }
  agnode(graph.get(), const_cast<char*>("bottom left"), 1);
  Agnode_t* const other = agnode(graph.get(), const_cast<char*>("top right"), 1);
  agset(other, const_cast<char*>("pos"), const_cast<char*>(corner.c_str()));
  const GraphvizLayout layout(graphviz.context(), graph.get(), "nop2");
  return rendered(gvRenderData, graphviz.context(), graph.get(), kPng);
}

}  // namespace weft::inspect
