// A layout for drawings that are too large for Graphviz: linear in boxes and lines.
#pragma once

#include "inspect/drawing/drawing.h"
#include "inspect/drawing/picture.h"

namespace weft::inspect {

/// Each inner section is a block, in which a box stands a level below the boxes that it waits for; blocks stand side by
/// side in program order, in rows, one group of rows a phase. Lines are straight. Boxes have the ids, classes,
/// tooltips, colours and marks of dump_dot's.
Picture block_layout(const Drawing& drawing);

}  // namespace weft::inspect
