// The timeline: a canvas with one row for each stream, rank and policy; the memory below; a map of the whole above.
// A frame draws at most about 2000 rectangles, however many slices there are: slices below a few pixels are merged.

const ROW = 24, BAR = 17, HEAD = 26, AXIS = 24, MAP = 34, MOST_RECTANGLES = 2000;
const LEAST = 50;    // nanoseconds that are shown at least
const NARROW = 560;  // pixels, below which names of rows get less room

class Timeline {
  constructor(page, views) {
    this.page = page;
    this.views = views;
    this.items = [];  // of the page from top to bottom: heads and rows
    let y = 0;
    for (const view of views) {
      for (let r = 0; r < view.ranks.length; ++r) {
        this.items.push({y, height: HEAD, view, rank: r});
        y += HEAD;
        for (const row of view.rows.filter((row) => row.rank === r)) {
          this.items.push({y, height: ROW, view, row});
          row.y = y;
          y += ROW;
        }
      }
    }
    this.height = y;
    this.span = Math.max(1, ...views.map((view) => view.end));
    this.scroll = 0;
    this.hidden = new Set();  // styles that are drawn pale
    this.hovered = this.pinned = null;
    this.bright = null;  // 'path' or 'moved': what alone isn't drawn pale
    this.selection = null;
    this.selecting = false;  // whether dragging selects rather than pans
    this.labels = new Map();
    this.canvas = document.getElementById('weft-canvas');
    this.map = document.getElementById('weft-map');
    this.context = this.canvas.getContext('2d');
    this.frame = 0;
    this.rectangles = 0;  // of the last frame
    const last = views[0].ranks[0].steps.at(-1);
    this.home = views.length === 1 && views[0].ranks[0].steps.length > 1 ? [last.begin, last.end] : [0, this.span];
    this.from = this.home[0];
    this.to = this.home[1];
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas.parentElement);
    this.resize();
  }

  resize() {
    const width = this.canvas.parentElement.clientWidth, most = Math.max(240, Math.round(innerHeight * 0.62));
    this.context.font = '11px system-ui, sans-serif';
    // Beside the longest name, or as much of it as a telephone has room for, the share of the time.
    this.share = this.context.measureText('100 %').width;
    const names = this.items.map((item) => item.row ? this.context.measureText(item.row.label).width : 0);
    const wanted = Math.ceil(Math.max(...names) + this.share + 22);
    this.gutter = width < NARROW ? Math.min(Math.max(82, wanted), 120) : Math.min(Math.max(136, wanted), 260);
    this.canvas.dataset.gutter = this.gutter;
    this.width = Math.max(this.gutter + 120, width);
    this.shown = Math.min(this.height, most);
    const ratio = devicePixelRatio || 1;
    for (const [canvas, height] of [[this.canvas, this.shown + AXIS], [this.map, MAP]]) {
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    this.mapped = null;
    this.readColors();
  }

  readColors() {
    const style = getComputedStyle(document.documentElement);
    this.colors = {};
    for (const name of ['paper', 'ink', 'soft', 'line', 'band', 'accent', 'alarm', 'bound']) {
      this.colors[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.mapped = null;
    this.draw();
  }

  x(time) { return this.gutter + (time - this.from) / (this.to - this.from) * (this.width - this.gutter); }
  time(x) { return this.from + (x - this.gutter) / (this.width - this.gutter) * (this.to - this.from); }

  look(from, to) {
    const length = Math.min(Math.max(to - from, LEAST), this.span * 1.04);
    const middle = (from + to) / 2, slack = this.span * 0.02;
    this.from = Math.min(Math.max(middle - length / 2, -slack), Math.max(-slack, this.span + slack - length));
    this.to = this.from + length;
    this.page.changed();
    this.draw();
  }

  // Shows `length` nanoseconds, with `time` at x.
  put(time, x, length) {
    if (length > this.span * 1.04) return this.look(0, this.span);
    const share = (x - this.gutter) / (this.width - this.gutter), shown = Math.max(length, LEAST);
    this.look(time - shown * share, time + shown * (1 - share));
  }
  zoom(factor, x = (this.gutter + this.width) / 2) {
    const at = Math.max(this.gutter, x);
    this.put(this.time(at), at, (this.to - this.from) * factor);
  }
  pan(share) {
    const by = (this.to - this.from) * share;
    this.look(this.from + by, this.to + by);
  }
  // The time and the row that two fingers hold stay below the middle between them.
  pinch(begun, {x, y, apart}) {
    this.scroll = this.scrollAt(begun.scroll + begun.y - y);
    this.put(begun.time, x, (begun.to - begun.from) * begun.apart / apart);
  }
  scrollAt(pixels) { return Math.min(Math.max(0, pixels), Math.max(0, this.height - this.shown)); }
  scrollBy(pixels) {
    this.scroll = this.scrollAt(this.scroll + pixels);
    this.page.changed();
    this.draw();
  }
  fit() {
    const whole = this.from <= this.home[0] && this.to >= this.home[1] && this.to - this.from <= 1.05 * (this.home[1] - this.home[0]);
    if (whole) this.look(0, this.span);
    else this.look(...this.home);
  }

  // Brings a slice into view; keeps the scale where it can be seen well.
  show(slice) {
    const {start, end} = slice.view.times(slice), row = slice.view.rowOf(slice);
    const length = this.to - this.from, pixels = (end - start) / length * (this.width - this.gutter);
    if (pixels < 8) {
      const wanted = Math.max((end - start) * 30, 200);
      this.look((start + end) / 2 - wanted / 2, (start + end) / 2 + wanted / 2);
    } else if (start < this.from || end > this.to) {
      const wanted = Math.max(length, (end - start) * 1.2);
      this.look((start + end) / 2 - wanted / 2, (start + end) / 2 + wanted / 2);
    }
    if (row.y < this.scroll) this.scrollBy(row.y - HEAD - this.scroll);
    if (row.y + ROW > this.scroll + this.shown) this.scrollBy(row.y + ROW - this.scroll - this.shown);
  }

  draw() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
  }

  paint() {
    const {context: c, colors} = this;
    this.rectangles = 0;
    c.clearRect(0, 0, this.width, this.shown + AXIS);
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'middle';
    c.save();
    c.beginPath();
    c.rect(0, 0, this.width, this.shown);
    c.clip();
    c.translate(0, -this.scroll);
    const visible = this.items.filter((item) => item.y + item.height > this.scroll && item.y < this.scroll + this.shown);
    for (const item of visible) if (item.row) {
      c.fillStyle = colors.band;
      c.fillRect(this.gutter, item.y, this.width - this.gutter, BAR);
    }
    this.paintGrid(visible);
    const rows = visible.filter((item) => item.row);
    for (this.bin = 1; this.tooMany(rows, this.bin);) this.bin *= 2;
    for (const item of rows) this.paintRow(item.row, item.y);
    c.fillStyle = colors.paper;
    c.fillRect(0, this.scroll, this.gutter - 2, this.shown);
    for (const item of visible) this.paintLabel(item);
    this.paintLinks();
    this.paintSelection();
    c.restore();
    this.paintAxis();
    this.paintMap();
    this.page.painted();
  }

  paintGrid(visible) {
    const {context: c, colors} = this;
    const vertical = (time, y, height, color, dash) => {
      const x = Math.round(this.x(time)) + 0.5;
      if (x < this.gutter || x > this.width) return;
      c.strokeStyle = color;
      c.setLineDash(dash);
      c.beginPath();
      c.moveTo(x, y);
      c.lineTo(x, y + height);
      c.stroke();
    };
    for (const [time] of this.ticks()) vertical(time, this.scroll, this.shown, colors.line, []);
    for (const item of visible) {
      if (!item.row) continue;
      for (const step of item.view.ranks[item.row.rank].steps) {
        vertical(step.begin, item.y - 4, ROW + 4, colors.soft, []);
        vertical(step.end, item.y - 4, ROW + 4, colors.soft, []);
        for (const bound of item.view.bounds) vertical(step.begin + bound.ns, item.y - 4, ROW + 4, colors.bound, [4, 3]);
      }
    }
    c.setLineDash([]);
  }

  pale(row, i) {
    const view = row.view, task = row.task[i];
    if (this.bright === 'path') return view.ranks[row.rank].steps[row.step[i]].path[task] === 0;
    if (this.bright === 'moved') return view.moved[task] === 0;
    if (this.hidden.has(view.tasks.style[task])) return true;
    return view.dimmed !== null && view.dimmed[task] === 1;
  }

  // Whether slices at least a bin wide and the other bins that are busy would be more than a frame may draw.
  tooMany(rows, bin) {
    const scale = (this.width - this.gutter) / (this.to - this.from);
    let count = 0;
    for (const {row} of rows) {
      let last = -1;
      for (let i = lowerBound(row.latest, this.from); i < row.size && row.start[i] < this.to; ++i) {
        const key = Math.floor((row.start[i] - this.from) * scale / bin);
        if ((row.end[i] - row.start[i]) * scale >= bin) ++count;
        else if (key !== last) ++count, last = key;
      }
      if (count > MOST_RECTANGLES) return bin < this.width;
    }
    return false;
  }

  paintRow(row, y) {
    const {context: c, bin} = this, kinds = this.page.kinds, view = row.view;
    const width = this.width - this.gutter, scale = width / (this.to - this.from);
    const bins = new Map();  // of slices narrower than a bin: how long each kind is busy in it
    const first = lowerBound(row.latest, this.from);
    const wide = [];
    for (let i = first; i < row.size && row.start[i] < this.to; ++i) {
      const left = (row.start[i] - this.from) * scale, length = (row.end[i] - row.start[i]) * scale;
      if (length >= bin) {
        wide.push(i);
        continue;
      }
      const key = Math.floor(left / bin), pale = this.pale(row, i), style = view.tasks.style[row.task[i]];
      let entry = bins.get(key);
      if (!entry) bins.set(key, entry = {sum: 0, bright: 0, by: new Float64Array(2 * kinds.length)});
      entry.by[style + (pale ? kinds.length : 0)] += Math.max(length / bin, 0.001);
      entry.sum += length / bin;
      if (!pale) ++entry.bright;
    }
    // Neighbours that look the same become one rectangle.
    let run = null;
    const flush = () => {
      if (!run) return;
      c.globalAlpha = run.alpha;
      c.fillStyle = kinds[run.style].fill;
      c.fillRect(this.gutter + run.key * bin, y, (run.last - run.key + 1) * bin, BAR);
      ++this.rectangles;
    };
    for (const [key, entry] of bins) {
      let best = entry.bright > 0 ? 0 : kinds.length;
      const end = entry.bright > 0 ? kinds.length : 2 * kinds.length;
      for (let k = best; k < end; ++k) if (entry.by[k] > entry.by[best]) best = k;
      const density = 0.3 + 0.7 * Math.min(1, Math.ceil(entry.sum * 5) / 5);  // pale where it is mostly idle
      const alpha = best >= kinds.length ? 0.13 : density, style = best % kinds.length;
      if (run && run.style === style && run.alpha === alpha && run.last === key - 1) {
        run.last = key;
        continue;
      }
      flush();
      run = {style, alpha, key, last: key};
    }
    flush();
    for (const i of wide) {
      const left = Math.max(this.gutter, this.x(row.start[i])), right = Math.min(this.width, this.x(row.end[i]));
      const task = row.task[i], kind = kinds[view.tasks.style[task]];
      if (right <= left) continue;
      c.globalAlpha = this.pale(row, i) ? 0.13 : 1;
      c.fillStyle = kind.fill;
      c.fillRect(left, y, right - left > 3 ? right - left - 0.5 : right - left, BAR);
      ++this.rectangles;
      const label = this.label(view, task, right - left - 6);
      if (label === '') continue;
      c.globalAlpha = Math.max(c.globalAlpha, 0.35);
      c.fillStyle = c.globalAlpha < 1 ? this.colors.soft : kind.text;
      c.fillText(label, left + 3, y + BAR / 2 + 0.5);
    }
    c.globalAlpha = 1;
    c.fillStyle = this.colors.alarm;
    this.paintExposed(row, y, scale);
  }

  // The longest form of a task's name that has room on a bar.
  label(view, task, room) {
    if (room < 10) return '';
    const c = this.context, name = view.tasks.name[task];
    c.font = '10px system-ui, sans-serif';
    const width = (text) => {
      if (!this.labels.has(text)) this.labels.set(text, c.measureText(text).width);
      return this.labels.get(text);
    };
    if (name.length * 3 < room && width(name) <= room) return name;
    return view.text('labels', task).split('\n').find((label) => width(label) <= room) || '';
  }

  paintExposed(row, y, scale) {
    let until = -1;
    for (const [start, end] of row.exposed) {
      if (end < this.from || start > this.to) continue;
      const left = Math.max(this.gutter, this.x(start)), right = Math.min(this.width, this.gutter + (end - this.from) * scale);
      if (right <= until) continue;  // hidden by the bar before
      until = Math.max(right, left + 1);
      this.context.fillRect(left, y + BAR + 1, until - left, 3);
      ++this.rectangles;
    }
  }

  paintLabel(item) {
    const {context: c, colors} = this;
    if (item.row) {
      c.fillStyle = colors.ink;
      c.textAlign = 'right';
      const end = this.gutter - this.share - 16;
      c.fillText(item.row.label, end, item.y + BAR / 2, end - 4);
      c.fillStyle = colors.soft;
      c.fillText(`${Math.round(100 * item.row.busy)} %`, this.gutter - 8, item.y + BAR / 2);
      c.textAlign = 'left';
      return;
    }
    const rank = item.view.ranks[item.rank];
    c.fillStyle = colors.ink;
    c.font = '600 12px system-ui, sans-serif';
    const title = (this.views.length > 1 ? `${item.view.name}, ` : '') + `rank ${rank.number}`;
    c.fillText(title, 8, item.y + HEAD / 2 + 2);
    const left = Math.max(this.gutter, 8 + c.measureText(title).width + 12);
    c.font = '11px system-ui, sans-serif';
    c.fillStyle = colors.soft;
    c.fillText(this.fitting(rank.steps.at(-1).facts, this.width - left - 8), left, item.y + HEAD / 2 + 2);
  }

  // As much of a list of facts as has room.
  fitting(facts, room) {
    while (this.context.measureText(facts).width > room) {
      const end = Math.max(facts.lastIndexOf(','), facts.lastIndexOf(';'));
      if (end < 0) return '';
      facts = facts.slice(0, end);
    }
    return facts;
  }

  paintSelection() {
    if (!this.selection) return;
    const {context: c, colors, selection} = this, rows = this.items.filter((item) => item.row);
    const top = rows[selection.first].y - 3, bottom = rows[selection.last].y + ROW - 3;
    const left = Math.max(this.gutter, this.x(selection.from)), right = Math.min(this.width, this.x(selection.to));
    if (right <= left) return;
    c.fillStyle = c.strokeStyle = colors.accent;
    c.globalAlpha = 0.16;
    c.fillRect(left, top, right - left, bottom - top);
    c.globalAlpha = 1;
    c.lineWidth = 1.5;
    c.strokeRect(left, top, right - left, bottom - top);
    c.lineWidth = 1;
  }

  // Selects the times between two places of the canvas, on the rows nearest to them.
  selectBetween(a, b) {
    const rows = this.items.filter((item) => item.row);
    const nearest = (y) => {
      let best = 0;
      rows.forEach((item, i) => {
        const off = (at) => Math.abs(rows[at].y + BAR / 2 - y - this.scroll);
        if (off(i) < off(best)) best = i;
      });
      return best;
    };
    const times = [a, b].map(([x]) => this.time(Math.max(this.gutter, Math.min(x, this.width))));
    const ends = [nearest(a[1]), nearest(b[1])];
    this.page.selectRange({from: Math.min(...times), to: Math.max(...times), first: Math.min(...ends), last: Math.max(...ends)});
  }

  // Ticks at 1, 2 or 5 times a power of ten, not nearer than their texts allow: [time, text].
  ticks() {
    const apart = this.width < NARROW ? 70 : 110;
    const wanted = (this.to - this.from) * apart / (this.width - this.gutter), power = 10 ** Math.floor(Math.log10(wanted));
    const step = Math.max(1, wanted / power > 5 ? 10 * power : wanted / power > 2 ? 5 * power : wanted / power > 1 ? 2 * power : power);
    const [unit, name] = this.to > 2e9 ? [1e9, 's'] : this.to > 2e6 ? [1e6, 'ms'] : [1e3, 'µs'];
    const digits = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / unit) + 1e-9)));
    const list = [];
    for (let i = Math.max(0, Math.ceil(this.from / step)); i * step <= this.to; ++i) {
      list.push([i * step, `${(i * step / unit).toFixed(digits)} ${name}`]);
    }
    return list;
  }

  paintAxis() {
    const {context: c, colors} = this, y = this.shown;
    c.fillStyle = colors.soft;
    c.textAlign = 'center';
    for (const [time, text] of this.ticks()) {
      const x = this.x(time);
      if (x >= this.gutter && x < this.width - 24) c.fillText(text, Math.max(x, this.gutter + 16), y + AXIS / 2);
    }
    c.textAlign = 'left';
    if (this.height > this.shown) {
      c.fillStyle = colors.soft;
      const size = this.shown * this.shown / this.height;
      c.fillRect(this.width - 4, this.scroll * this.shown / this.height, 4, size);
    }
  }

  box(slice) {
    const {start, end} = slice.view.times(slice), row = slice.view.rowOf(slice);
    return {left: this.x(start), right: this.x(end), y: row.y};
  }

  paintLinks() {
    const c = this.context, at = this.hovered || this.pinned;
    if (this.pinned) this.outline(this.pinned, 2.5);
    if (!at) return;
    this.outline(at, 1.5);
    const most = 150, inputs = at.view.dependencies(at), outputs = at.view.dependents(at);
    const line = (from, to, color, width, dash) => {
      const a = this.box(from), b = this.box(to);
      const x1 = Math.max(this.gutter, Math.min(a.right, this.width)), x2 = Math.max(this.gutter, Math.min(b.left, this.width));
      const y1 = a.y + BAR / 2, y2 = b.y + BAR / 2, bend = Math.max(14, Math.abs(x2 - x1) / 3);
      c.strokeStyle = color;
      c.lineWidth = width;
      c.setLineDash(dash);
      c.beginPath();
      c.moveTo(x1, y1);
      c.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
      c.stroke();
    };
    for (const d of outputs.slice(0, most)) line(at, d.slice, this.colors.soft, 1, [4, 3]);
    for (const d of inputs.slice(-most, -1)) line(d.slice, at, this.colors.accent, 1.2, []);
    if (inputs.length > 0) line(inputs.at(-1).slice, at, this.colors.alarm, 2.4, []);
    c.setLineDash([]);
    c.lineWidth = 1;
  }

  outline(slice, width) {
    const {left, right, y} = this.box(slice);
    if (right < this.gutter || left > this.width) return;
    this.context.strokeStyle = this.colors.ink;
    this.context.lineWidth = width;
    const from = Math.max(left, this.gutter);
    this.context.strokeRect(from - 0.5, y - 0.5, Math.max(2, Math.min(right, this.width) - from + 1), BAR + 1);
    this.context.lineWidth = 1;
  }

  // The whole, drawn once and kept: a line a row; then what the window shows of it.
  paintMap() {
    const c = this.map.getContext('2d'), {colors} = this, rows = this.items.filter((item) => item.row);
    const scale = (this.width - this.gutter) / this.span;
    if (!this.mapped) {
      this.mapped = document.createElement('canvas');
      this.mapped.width = this.width;
      this.mapped.height = MAP;
      const m = this.mapped.getContext('2d'), height = Math.max(1, Math.min(6, (MAP - 4) / rows.length));
      rows.slice(0, MAP).forEach(({row}, index) => {
        const cells = new Int8Array(Math.ceil(this.width - this.gutter) + 1).fill(-1);
        for (let i = 0; i < row.size; ++i) {
          const style = row.view.tasks.style[row.task[i]];
          for (let x = Math.floor(row.start[i] * scale); x <= Math.floor(row.end[i] * scale) && x < cells.length; ++x) {
            if (x >= 0) cells[x] = style;
          }
        }
        for (let x = 0; x < cells.length; ++x) {
          if (cells[x] < 0) continue;
          let end = x;
          while (end < cells.length && cells[end] === cells[x]) ++end;
          m.fillStyle = this.page.kinds[cells[x]].fill;
          m.fillRect(this.gutter + x, 2 + index * height, end - x, Math.max(1, height - 0.5));
          x = end - 1;
        }
      });
    }
    c.clearRect(0, 0, this.width, MAP);
    c.drawImage(this.mapped, 0, 0);
    const left = this.gutter + this.from * scale, right = this.gutter + this.to * scale;
    c.fillStyle = colors.paper;
    c.globalAlpha = 0.6;
    c.fillRect(this.gutter, 0, Math.max(0, left - this.gutter), MAP);
    c.fillRect(right, 0, this.width - right, MAP);
    c.globalAlpha = 1;
    c.strokeStyle = colors.accent;
    c.strokeRect(Math.max(this.gutter, left) + 0.5, 0.5, Math.max(3, Math.min(right, this.width) - Math.max(this.gutter, left) - 1), MAP - 1);
    c.fillStyle = colors.soft;
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'middle';
    c.fillText('whole', 8, MAP / 2);
  }

  sliceAt(x, y) {
    if (x < this.gutter || y > this.shown) return null;
    const item = this.items.find((one) => one.row && y + this.scroll >= one.y && y + this.scroll < one.y + ROW);
    if (!item) return null;
    const row = item.row, time = this.time(x), near = 2 * (this.to - this.from) / (this.width - this.gutter);
    let best = -1, distance = near;
    for (let i = lowerBound(row.latest, time - near); i < row.size && row.start[i] <= time + near; ++i) {
      const off = Math.max(row.start[i] - time, time - row.end[i], 0);
      if (off < distance || (off === 0 && distance === 0)) best = i, distance = off;
    }
    return best < 0 ? null : {view: row.view, rank: row.rank, step: row.step[best], task: row.task[best]};
  }

  // The slice beside this one on its stream.
  neighbour(slice, by) {
    const row = slice.view.rowOf(slice), at = slice.view.positionIn(row, slice) + by;
    return at < 0 || at >= row.size ? slice : {...slice, step: row.step[at], task: row.task[at]};
  }

  listen() {
    const canvas = this.canvas, fingers = new Fingers();
    let drag = null, pinch = null;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const [x] = place(event), wide = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (event.shiftKey && !wide) this.scrollBy(event.deltaY);
      else if (wide) this.pan(event.deltaX / 1000);
      else this.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 400), x);
    }, {passive: false});
    // What the fingers that are down do from here: one drags, two pinch.
    const begin = (moved, selects) => {
      const window = {from: this.from, to: this.to, scroll: this.scroll};
      drag = pinch = null;
      if (fingers.count === 1) drag = {...window, x: fingers.first[0], y: fingers.first[1], moved, selects};
      if (fingers.count === 2) pinch = {...window, ...fingers.pair, time: this.time(fingers.pair.x)};
      if (pinch) this.page.hover(null);
    };
    canvas.addEventListener('pointerdown', (event) => {
      fingers.down(event, place(event));
      if (event.isTrusted) canvas.setPointerCapture(event.pointerId);
      begin(false, this.selecting || event.shiftKey);
    });
    canvas.addEventListener('pointermove', (event) => {
      const [x, y] = place(event), down = fingers.move(event, [x, y]);
      if (down && pinch) return this.pinch(pinch, fingers.pair);
      if (!drag) return down || this.page.hover(this.sliceAt(x, y), event.clientX, event.clientY);
      if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.moved = true;
      if (!drag.moved) return;
      this.page.hover(null);
      if (drag.selects) return this.selectBetween([drag.x, drag.y], [x, y]);
      const by = (drag.x - x) * (drag.to - drag.from) / (this.width - this.gutter);
      this.scroll = this.scrollAt(drag.scroll + drag.y - y);
      this.look(drag.from + by, drag.to + by);
    });
    // A finger that a pinch leaves drags on, and pins nothing.
    const up = (event, pins) => {
      const many = fingers.count > 1;
      fingers.up(event);
      if (many) return begin(true, false);
      if (pins && drag && !drag.moved) this.page.pin(this.sliceAt(...place(event)));
      drag = null;
    };
    canvas.addEventListener('pointerup', (event) => up(event, true));
    canvas.addEventListener('pointercancel', (event) => up(event, false));
    // One finger may scroll the page up and down, two may not.
    canvas.addEventListener('touchmove', (event) => { if (event.touches.length > 1) event.preventDefault(); }, {passive: false});
    canvas.addEventListener('pointerleave', () => this.page.hover(null));
    canvas.addEventListener('dblclick', (event) => this.zoom(0.3, place(event)[0]));
    const jump = (event) => {
      if (event.buttons === 0) return;
      const x = event.clientX - this.map.getBoundingClientRect().left, half = (this.to - this.from) / 2;
      const at = (x - this.gutter) / (this.width - this.gutter) * this.span;
      this.look(at - half, at + half);
    };
    this.map.addEventListener('pointerdown', (event) => { if (event.isTrusted) this.map.setPointerCapture(event.pointerId); jump(event); });
    this.map.addEventListener('pointermove', jump);
  }

  // Whether the key meant something here.
  key(event) {
    const step = () => {
      const slice = this.pinned || this.sliceAt(this.gutter + 1, 0) || this.firstShown();
      return slice;
    };
    const actions = {
      ArrowLeft: () => this.pan(-0.15), a: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15), d: () => this.pan(0.15),
      ArrowUp: () => this.scrollBy(-ROW), ArrowDown: () => this.scrollBy(ROW),
      w: () => this.zoom(0.7), '+': () => this.zoom(0.7), '=': () => this.zoom(0.7),
      s: () => this.zoom(1 / 0.7), '-': () => this.zoom(1 / 0.7), f: () => this.fit(), Home: () => this.look(0, this.span),
      '[': () => this.page.select(this.pinned ? this.neighbour(this.pinned, -1) : step()),
      ']': () => this.page.select(this.pinned ? this.neighbour(this.pinned, 1) : step()),
      c: () => this.page.brighten('path'), m: () => this.page.brighten('moved'),
      x: () => this.selectBetween([this.gutter, 0], [this.width, this.shown]),
    };
    const action = actions[event.key];
    if (action) action();
    return action !== undefined;
  }

  firstShown() {
    for (const {row} of this.items) {
      if (!row || row.size === 0) continue;
      const i = Math.min(lowerBound(row.start, this.from), row.size - 1);
      return {view: row.view, rank: row.rank, step: row.step[i], task: row.task[i]};
    }
    return null;
  }
}
