#include "graph/render.h"

#include <fmt/format.h>
#include <gvc.h>

#include <memory>
#include <mutex>
#include <string_view>

#include "base/error.h"

namespace weft {
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

class Layout {
 public:
  Layout(GVC_t* context, Agraph_t* graph) : context_(context), graph_(graph) {
    if (gvLayout(context_, graph_, "dot") == 0) return;
    throw UserError(fmt::format("Graphviz can't lay out the drawing ({})", QuietErrors::last()),
                    "the layout engine 'dot' and its list of plugins, config6a", "apt-get install graphviz");
  }
  ~Layout() { gvFreeLayout(context_, graph_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

 private:
  GVC_t* context_;
  Agraph_t* graph_;
};

// The length is an unsigned int up to Graphviz 12 and a size_t from 13 on: deduced from the function itself.
template <class Length>
std::string rendered(int (*render)(GVC_t*, Agraph_t*, const char*, char**, Length*), GVC_t* context, Agraph_t* graph) {
  char* data = nullptr;
  Length length = 0;
  const int status = render(context, graph, "svg:svg:core", &data, &length);
  const std::unique_ptr<char, FreeRendered> owner(data);
  if (status != 0 || data == nullptr) {
    throw UserError(fmt::format("Graphviz can't write SVG ({})", QuietErrors::last()), "its plugin 'core'",
                    "apt-get install graphviz");
  }
  return std::string(data, static_cast<std::size_t>(length));
}

}  // namespace

std::string render_svg(const std::string& dot) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const QuietErrors quiet;
  // One for all drawings: Graphviz's pango plugin remembers the font of the text before by a pointer into the context,
  // and would read it after a context has gone.
  static const std::unique_ptr<GVC_t, FreeContext> context(gvContext());
  if (!context) throw UserError("Graphviz doesn't start", "an installed Graphviz", "apt-get install graphviz");
  const std::unique_ptr<Agraph_t, CloseGraph> graph(agmemread(dot.c_str()));
  if (!graph) {
    throw UserError(fmt::format("this is no graph that Graphviz can read ({})", QuietErrors::last()), "DOT text", "");
  }
  const auto nodes = static_cast<std::size_t>(agnnodes(graph.get()));
  if (nodes > kMaxRenderNodes) {
    throw UserError(fmt::format("the drawing has {} nodes", nodes), fmt::format("at most {}", kMaxRenderNodes),
                    "collapse the layers, or write the DOT file and run dot yourself");
  }
  const Layout layout(context.get(), graph.get());
  return rendered(gvRenderData, context.get(), graph.get());
}

}  // namespace weft
