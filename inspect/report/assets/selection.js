// A selected part of the timeline: its tasks counted and summed by kind.

// A selection is {from, to, first, last}: times, and indices into the timeline's rows.
function sumsOf(selection, rows) {
  const byKind = new Map();
  let tasks = 0, busy = 0, exposed = 0;
  for (const row of rows.slice(selection.first, selection.last + 1)) {
    let at = 0;  // exposed times rise, as the slices of a row do
    for (let i = lowerBound(row.latest, selection.from); i < row.size && row.start[i] < selection.to; ++i) {
      const from = Math.max(row.start[i], selection.from), to = Math.min(row.end[i], selection.to);
      if (to <= from) continue;
      while (at < row.exposed.length && row.exposed[at][1] <= from) ++at;
      let alone = 0;
      for (let k = at; k < row.exposed.length && row.exposed[k][0] < to; ++k) {
        alone += Math.max(0, Math.min(row.exposed[k][1], to) - Math.max(row.exposed[k][0], from));
      }
      const style = row.view.tasks.style[row.task[i]];
      if (!byKind.has(style)) byKind.set(style, {style, tasks: 0, busy: 0, exposed: 0});
      const sum = byKind.get(style);
      ++sum.tasks;
      sum.busy += to - from;
      sum.exposed += alone;
      ++tasks;
      busy += to - from;
      exposed += alone;
    }
  }
  return {kinds: [...byKind.values()].sort((a, b) => b.busy - a.busy), tasks, busy, exposed};
}

/** The panel below the timeline that shows the sums. */
class SelectionPanel {
  constructor(page) {
    this.page = page;
    this.panel = byId('sums');
  }

  show(selection) {
    this.panel.hidden = !selection;
    if (!selection) return this.panel.replaceChildren();
    const {timeline, kinds} = this.page, rows = timeline.items.filter((item) => item.row).map((item) => item.row);
    const sums = sumsOf(selection, rows), length = selection.to - selection.from;
    const head = make('h3', `Selected: ${nanoseconds(length)} in ${selection.last - selection.first + 1} rows, ` +
        `${sums.tasks} tasks, ${nanoseconds(sums.exposed)} exposed`);
    const zoom = make('button', 'zoom to it', {type: 'button'}), clear = make('button', 'clear', {type: 'button'});
    zoom.addEventListener('click', () => timeline.look(selection.from, selection.to));
    clear.addEventListener('click', () => { this.page.selectRange(null); timeline.canvas.focus(); });
    head.append(' ', zoom, ' ', clear);
    const table = make('table'), line = (cells, tag) => {
      const row = make('tr');
      cells.forEach((text, i) => row.append(make(tag, text, i === 0 ? {class: 'text'} : {})));
      return row;
    };
    table.append(line(['kind', 'tasks', 'time', 'of all %', 'exposed'], 'th'));
    for (const sum of sums.kinds) {
      const row = line([kinds[sum.style].name, String(sum.tasks), nanoseconds(sum.busy),
                        (100 * sum.busy / sums.busy).toFixed(1), sum.exposed > 0 ? nanoseconds(sum.exposed) : ''], 'td');
      const swatch = make('i', '', {class: 'swatch'});
      swatch.style.background = kinds[sum.style].fill;
      row.firstChild.prepend(swatch);
      table.append(row);
    }
    const wide = make('div', '', {class: 'wide'});
    wide.append(table);
    this.panel.replaceChildren(head, wide);
  }
}
