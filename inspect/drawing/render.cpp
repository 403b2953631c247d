#include "inspect/drawing/render.h"

#include <fmt/format.h>
#include <gvc.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace weft::inspect {
namespace {

template <auto kFree>
struct FreedBy {
  void operator()(auto* thing) const { kFree(thing); }
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

struct FreeLayout {
  GVC_t* context = nullptr;
  void operator()(Agraph_t* graph) const { gvFreeLayout(context, graph); }
};

std::unique_ptr<Agraph_t, FreeLayout> lay_out(GVC_t* context, Agraph_t* graph, const char* engine) {
  if (gvLayout(context, graph, engine) == 0) return {graph, {context}};
  throw UserError(fmt::format("Graphviz can't lay out the drawing ({})", QuietErrors::last()),
                  fmt::format("the layout engine '{}' and its list of plugins, config6a", engine),
                  "apt-get install graphviz");
}

// The length is an unsigned int up to Graphviz 12 and a size_t from 13 on: deduced from the function itself.
template <class Length>
std::string rendered(int (*render)(GVC_t*, Agraph_t*, const char*, char**, Length*), GVC_t* context, Agraph_t* graph,
                     const char* format) {
  char* data = nullptr;
  Length length = 0;
  const int status = render(context, graph, format, &data, &length);
  const std::unique_ptr<char, FreedBy<gvFreeRenderData>> owner(data);
  if (status != 0 || data == nullptr) {
    throw UserError(fmt::format("Graphviz can't write {} ({})", format, QuietErrors::last()),
                    "its plugins 'core' and 'pango'", "apt-get install graphviz");
  }
  return std::string(data, static_cast<std::size_t>(length));
}

constexpr double kPointsAnInch = 72, kDotsAPoint = 2;
constexpr const char* kPng = "png:cairo:cairo";
constexpr const char* kPlace = "sortv";  // osage's order of nodes and clusters

// For functions of Graphviz that take a char* and copy what it points to.
char* given(const char* text) {
  return const_cast<char*>(text);
}

void set(Agraph_t* graph, const char* name, const std::string& value) {
  agattr(graph, AGRAPH, given(name), given(value.c_str()));  // declares and sets
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
    static const std::unique_ptr<GVC_t, FreedBy<gvFreeContext>> context(gvContext());
    return context.get();
  }

  std::lock_guard<std::mutex> lock_;
  QuietErrors quiet_;
  GVC_t* context_;
};

using GraphHandle = std::unique_ptr<Agraph_t, FreedBy<agclose>>;

// Graphviz has the clusters of a graph in the order of addresses: each is placed by its first node instead.
void place_by_first_node(Agraph_t* graph) {
  for (Agraph_t* cluster = agfstsubg(graph); cluster != nullptr; cluster = agnxtsubg(cluster)) {
    if (Agnode_t* const first = agfstnode(cluster)) agset(cluster, given(kPlace), agget(first, given(kPlace)));
    place_by_first_node(cluster);
  }
}

// Rows in the order of the text, and of the outermost clusters one column.
void set_blocks(Agraph_t* graph) {
  agattr(graph, AGRAPH, given(kPlace), given("0"));
  agattr(graph, AGNODE, given(kPlace), given("0"));
  std::size_t place = 0;
  for (Agnode_t* node = agfstnode(graph); node != nullptr; node = agnxtnode(graph, node)) {
    agset(node, given(kPlace), given(std::to_string(++place).c_str()));
  }
  place_by_first_node(graph);
  set(graph, "splines", "line");
  set(graph, "packmode", "array_ut");
  agset(graph, given("packmode"), given("array_ul1"));
}

GraphHandle parsed(const std::string& dot, GraphLayout layout) {
  GraphHandle graph(agmemread(dot.c_str()));
  if (!graph) {
    throw UserError(fmt::format("this is no graph that Graphviz can read ({})", QuietErrors::last()), "DOT text", "");
  }
  if (layout == GraphLayout::blocks) {
    set_blocks(graph.get());
    return graph;
  }
  const auto nodes = static_cast<std::size_t>(agnnodes(graph.get()));
  if (nodes > kMaxRenderNodes) {
    throw UserError(fmt::format("the drawing has {} nodes", nodes), fmt::format("at most {}", kMaxRenderNodes),
                    "collapse the layers, or write the DOT file and run dot yourself");
  }
  return graph;
}

std::string rendered_dot(const std::string& dot, GraphLayout layout, const char* format) {
  const Graphviz graphviz;
  const GraphHandle graph = parsed(dot, layout);
  const auto laid_out = lay_out(graphviz.context(), graph.get(), layout == GraphLayout::blocks ? "osage" : "dot");
  double left = 0, bottom = 0, right = 0, top = 0;
  char* box = agget(graph.get(), given("bb"));
  if (box != nullptr) std::sscanf(box, "%lf,%lf,%lf,%lf", &left, &bottom, &right, &top);
  if (format == kPng) set_resolution(graph.get(), right - left, top - bottom);
  return rendered(gvRenderData, graphviz.context(), graph.get(), format);
}

}  // namespace

std::string render_svg(const std::string& dot, GraphLayout layout) {
  std::string svg = rendered_dot(dot, layout, "svg:svg:core");
  // A window that is narrower shows the whole, smaller.
  constexpr std::string_view kRoot = "<svg ";
  if (const std::size_t root = svg.find(kRoot); root != std::string::npos)
    svg.insert(root + kRoot.size(), "style=\"max-width:100%;height:auto\" ");
  return svg;
}

std::string render_png(const std::string& dot, GraphLayout layout) {
  return rendered_dot(dot, layout, kPng);
}

// The shapes are the background of a graph with two invisible nodes in its corners.
std::string render_png(const Picture& picture) {
  const Graphviz graphviz;
  const GraphHandle graph(agopen(given("picture"), Agdirected, nullptr));
  const std::string corner = fmt::format("{:.2f},{:.2f}", picture.width(), picture.height());
  set(graph.get(), "bb", "0,0," + corner);
  set(graph.get(), "pad", "0");
  set(graph.get(), "_background", picture.xdot());
  set_resolution(graph.get(), picture.width(), picture.height());
  for (const auto& [name, value] : {std::pair("pos", "0,0"), std::pair("style", "invis"), std::pair("label", ""),
                                    std::pair("width", "0.01"), std::pair("height", "0.01")}) {
    agattr(graph.get(), AGNODE, given(name), given(value));
  }
  agnode(graph.get(), given("bottom left"), 1);
  Agnode_t* const other = agnode(graph.get(), given("top right"), 1);
  agset(other, given("pos"), given(corner.c_str()));
  const auto layout = lay_out(graphviz.context(), graph.get(), "nop2");
  return rendered(gvRenderData, graphviz.context(), graph.get(), kPng);
}

}  // namespace weft::inspect
