#include "inspect/drawing/page.h"

#include <string_view>

#include "base/text/escape.h"

namespace weft::inspect {
namespace {

constexpr std::string_view kPageHead = R"HTML(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>)HTML";

constexpr std::string_view kStyle = R"HTML(</title>
<style>
body { margin: 0; background: #ffffff; font: 13px Helvetica, Arial, sans-serif; }
.moves { height: 100vh; overflow: hidden; }
.moves > svg { width: 100%; height: 100%; cursor: grab; }
#told { position: fixed; right: 8px; bottom: 8px; max-width: 45%; max-height: 60vh; overflow: auto; margin: 0;
  padding: 8px 10px; background: #ffffffee; border: 1px solid #bbbbbb; border-radius: 4px; white-space: pre-wrap; }
#told:empty { display: none; }
#keys { position: fixed; right: 8px; top: 6px; color: #555555; background: #ffffffcc; }
</style>
</head>
<body>
<div id="picture">
)HTML";

constexpr std::string_view kScript = R"HTML(</div>
<pre id="told" aria-live="polite"></pre>
<script>
'use strict';
(() => {
  const frame = document.getElementById('picture'), told = document.getElementById('told');
  const svg = frame.querySelector('svg'), box = svg.viewBox.baseVal;
  const whole = { x: box.x, y: box.y, width: box.width, height: box.height };
  frame.className = 'moves';
  const keys = document.createElement('div');
  keys.id = 'keys';
  keys.textContent = 'wheel or + −: zoom; drag or arrows: move; 0: all; click a box: what it is';
  document.body.append(keys);
  const scale = () => svg.getScreenCTM().a;
  const zoom = (factor, x, y) => {
    const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM().inverse());
    box.x = at.x - (at.x - box.x) * factor;
    box.y = at.y - (at.y - box.y) * factor;
    box.width *= factor;
    box.height *= factor;
  };
  const move = (dx, dy) => { const s = scale(); box.x -= dx / s; box.y -= dy / s; };
  const centre = (factor) => zoom(factor, innerWidth / 2, innerHeight / 2);
  svg.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.0015), event.clientX, event.clientY);
  }, { passive: false });
  let held = null, moved = 0;
  svg.addEventListener('pointerdown', (event) => { held = event; moved = 0; });
  addEventListener('pointermove', (event) => {
    if (!held) return;
    move(event.clientX - held.clientX, event.clientY - held.clientY);
    moved += Math.abs(event.clientX - held.clientX) + Math.abs(event.clientY - held.clientY);
    held = event;
  });
  addEventListener('pointerup', () => { held = null; });
  svg.addEventListener('click', (event) => {
    if (moved > 4) return;
    const link = event.target.closest('a'), group = event.target.closest('g');
    const title = group && group.querySelector(':scope > title');
    told.textContent = link ? link.getAttribute('xlink:title') || '' : title ? title.textContent : '';
  });
  const step = 60;
  const actions = {
    '+': () => centre(0.8), '=': () => centre(0.8), '-': () => centre(1.25),
    '0': () => Object.assign(box, whole), 'Escape': () => { told.textContent = ''; },
    'ArrowLeft': () => move(step, 0), 'ArrowRight': () => move(-step, 0),
    'ArrowUp': () => move(0, step), 'ArrowDown': () => move(0, -step),
  };
  addEventListener('keydown', (event) => {
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
})();
</script>
</body>
</html>
)HTML";

}  // namespace

std::string picture_page(const std::string& title, const std::string& svg) {
  // A page has neither an XML declaration nor a document type in its middle.
  const std::size_t begin = svg.find("<svg");
  std::string page;
  page.append(kPageHead).append(xml_escaped(title)).append(kStyle);
  page.append(svg, begin == std::string::npos ? svg.size() : begin);
  page.append(kScript);
  return page;
}

}  // namespace weft::inspect
