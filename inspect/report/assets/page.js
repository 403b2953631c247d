// Joins the parts of the page: selection, tooltip, search, legend, theme and keys.

const byId = (id) => document.getElementById(`weft-${id}`);

// An element with text; names of tasks get into the page here and nowhere else.
function make(tag, text = '', attributes = {}) {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

class Page {
  constructor(data) {
    this.kinds = data.kinds;
    this.views = data.views.map((view, i) => new View(view, i));
    this.tip = byId('tip');
    this.ready = false;
    this.query = '';
    this.found = [];  // slices of the search
    this.at = -1;
    this.link = null;  // once all is there
    this.memory = new MemoryChart(this, this.views);
    this.timeline = new Timeline(this, this.views);
    const pane = byId('graph');
    this.active = this.views.find((view) => pane && view.name === pane.dataset.view) || this.views[0];
    this.graph = pane && pane.querySelector('svg') ? new GraphPane(this, pane) : null;
    this.sums = new SelectionPanel(this);
    this.charts = new StepCharts(this, data.charts);
    // Whether a table is cut off, which a folded one is once it opens.
    const hint = (table) => table.classList.toggle('more', table.scrollWidth > table.clientWidth + 1);
    const cut = new ResizeObserver((list) => list.forEach(({target}) => hint(target)));
    for (const table of document.querySelectorAll('.wide')) {
      hint(table);
      cut.observe(table);
    }
    this.kindButtons = new Map();  // by style
    this.makeLegend();
    this.markMoved();
    this.listen();
    if (innerWidth < NARROW) document.querySelector('details.help').open = false;
    this.link = new ViewLink(this);
    this.link.apply(location.hash.slice(1));
  }

  // Something that a link holds is another one now.
  changed() { if (this.link) this.link.changed(); }

  painted() {
    this.memory.paint(this.timeline);
    if (this.ready) return;
    this.ready = true;
    performance.mark('weft-first-frame');
    document.documentElement.dataset.ready = 'yes';
  }

  makeLegend() {
    const used = new Set();
    for (const view of this.views) for (const style of view.tasks.style) used.add(style);
    this.kinds.forEach((kind, style) => {
      if (!used.has(style)) return;
      const button = make('button', '', {type: 'button', 'aria-pressed': 'true', title: `show or dim ${kind.name}`});
      const swatch = make('i');
      swatch.style.background = kind.fill;
      button.append(swatch, kind.name);
      button.addEventListener('click', () => {
        const hidden = new Set(this.timeline.hidden);
        if (!hidden.delete(style)) hidden.add(style);
        this.setHidden([...hidden]);
      });
      this.kindButtons.set(style, button);
      byId('legend').append(button);
    });
  }

  // Kinds that are drawn pale.
  setHidden(styles) {
    this.timeline.hidden = new Set(styles.filter((style) => this.kindButtons.has(style)));
    for (const [style, button] of this.kindButtons) button.setAttribute('aria-pressed', String(!this.timeline.hidden.has(style)));
    this.changed();
    this.timeline.draw();
  }

  // The first policy shows what moved in any of the others.
  markMoved() {
    const [first, ...others] = this.views;
    for (const view of others) {
      view.moved.forEach((moved, task) => {
        const before = moved ? first.find(view.tasks.name[task]) : -1;
        if (before >= 0) first.moved[before] = 1;
      });
    }
    byId('moved').hidden = !first.moved.includes(1);
  }

  // The task in the last step of the policy that was looked at last.
  sliceNamed(name) {
    for (const view of [this.active, ...this.views]) {
      const task = view.find(name);
      if (task >= 0) return {view, rank: 0, step: view.ranks[0].steps.length - 1, task};
    }
    return null;
  }

  hover(slice, clientX = 0, clientY = 0) {
    const before = this.timeline.hovered;
    const same = before && slice && before.task === slice.task && before.view === slice.view &&
        before.rank === slice.rank && before.step === slice.step;
    this.timeline.hovered = slice;
    if (!same && (before || slice)) this.timeline.draw();
    this.tip.hidden = !slice;
    if (!slice) return;
    if (!same) this.fillTip(slice);
    this.placeTip(clientX, clientY);
  }

  tell(text, clientX, clientY) {
    this.hover(null);
    this.tip.hidden = false;
    this.tip.replaceChildren(text);
    this.placeTip(clientX, clientY);
  }

  placeTip(clientX, clientY) {
    const box = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, Math.min(clientX + 14, innerWidth - box.width - 8))}px`;
    this.tip.style.top = `${clientY + 18 + box.height > innerHeight ? Math.max(4, clientY - box.height - 12) : clientY + 18}px`;
  }

  facts(slice) {
    const {view, task} = slice, t = view.tasks, {start, end, step} = view.times(slice);
    const list = [['duration', nanoseconds(end - start)], ['begins', `${nanoseconds(start - step.begin)} into step ${step.number}`]];
    list.push(['kind', view.text('kind', task) + (view.text('channel', task) ? ` on ${view.text('channel', task)}` : '') +
               (t.group[task] > 1 ? `, ${t.group[task]} ranks` : '')]);
    list.push(['stream', `${view.rowOf(slice).label}, rank ${view.ranks[slice.rank].number}`]);
    const place = [view.data.phases[t.phase[task]]];
    if (t.layer[task] >= 0) place.push(`layer ${t.layer[task]}`);
    if (t.micro[task] >= 0) place.push(`micro-batch ${t.micro[task]}`);
    list.push(['phase', place.join(', ')]);
    const work = [];
    if (t.flops[task] > 0) work.push(flopText(t.flops[task]));
    if (t.flops[task] > 0 && end > start) work.push(`${flopText(t.flops[task] / (end - start) * 1e9)}/s`);
    if (t.bytes[task] > 0) work.push(`${byteText(t.bytes[task])} touched`);
    if (t.network[task] > 0) work.push(`${byteText(t.network[task])} sent`);
    if (work.length > 0) list.push(['work', work.join(', ')]);
    if (view.text('reason', task)) list.push(['policy', `${view.name}: ${view.text('reason', task)}`]);
    return list;
  }

  describe(slice) {
    const list = make('dl');
    for (const [name, value] of this.facts(slice)) list.append(make('dt', name), make('dd', value));
    return list;
  }

  fillTip(slice) {
    const {view} = slice, inputs = view.dependencies(slice), {start} = view.times(slice);
    this.tip.replaceChildren(make('strong', view.tasks.name[slice.task]), this.describe(slice));
    const last = inputs.at(-1);
    if (last) {
      const wait = start - last.arrival;
      this.tip.append(make('p', `${inputs.length} input${inputs.length > 1 ? 's' : ''}, the last: ${view.tasks.name[last.slice.task]} ` +
          `(${last.why}), ${wait >= 0 ? `${nanoseconds(wait)} before it began` : 'still running when it began'}`, {class: 'last'}));
    }
    this.tip.append(make('p', `${view.dependents(slice).length} tasks wait for it`));
  }

  // Selects without moving the timeline.
  pin(slice) {
    this.timeline.pinned = slice;
    if (slice) this.active = slice.view;
    this.fillDetails(slice);
    if (this.graph) this.graph.mark(slice);
    this.changed();
    this.timeline.draw();
  }

  // A part of the timeline, whose tasks are summed; null for none.
  selectRange(selection) {
    this.timeline.selection = selection;
    this.sums.show(selection);
    this.changed();
    this.timeline.draw();
  }

  select(slice) {
    if (!slice) return;
    this.pin(slice);
    this.timeline.show(slice);
  }

  fillDetails(slice) {
    const panel = byId('details');
    panel.hidden = !slice;
    if (!slice) return panel.replaceChildren();
    const {view} = slice, head = make('h3', view.tasks.name[slice.task]), close = make('button', 'unpin', {type: 'button'});
    close.addEventListener('click', () => { this.pin(null); this.timeline.canvas.focus(); });
    head.append(' ', close);
    const links = (title, list, last) => {
      const box = make('div'), most = 12, shown = last ? list.slice(-most).reverse() : list.slice(0, most);
      box.append(make('h4', `${title} (${list.length})`));
      const items = make('ul');
      shown.forEach((d, i) => {
        const item = make('li', '', last && i === 0 ? {class: 'last'} : {}), button = make('button', view.tasks.name[d.slice.task], {type: 'button'});
        button.addEventListener('click', () => this.select(d.slice));
        const times = view.times(d.slice);
        item.append(button, ` ${d.why}, ${last ? 'ended' : 'begins'} ${nanoseconds((last ? times.end : times.start) - view.times(slice).step.begin)}`);
        items.append(item);
      });
      if (list.length > most) items.append(make('li', `and ${list.length - most} more`));
      box.append(items);
      return box;
    };
    const columns = make('div', '', {class: 'columns'});
    columns.append(this.describe(slice), links('waited for', view.dependencies(slice), true), links('is waited for by', view.dependents(slice), false));
    panel.replaceChildren(head, columns);
  }

  // Tasks whose name, kind, axis, stream or phase hold every word. L1 isn't a part of L12.
  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter((word) => word !== '');
    const held = words.map((word) => {
      const whole = /^(l|mb)\d+$/.test(word) ? new RegExp(`\\b${word}\\b`) : null;
      return (searched) => whole ? whole.test(searched) : searched.includes(word);
    });
    this.query = words.join(' ');
    this.found = [];
    this.at = -1;
    let tasks = 0;
    for (const view of this.views) {
      view.dimmed = null;
      if (words.length === 0) continue;
      view.dimmed = new Uint8Array(view.count).fill(1);
      const hits = [];
      view.searched(this.kinds).forEach((searched, task) => {
        if (!held.every((holds) => holds(searched))) return;
        view.dimmed[task] = 0;
        hits.push({view, rank: 0, step: view.ranks[0].steps.length - 1, task});
      });
      tasks += hits.length;
      hits.sort((a, b) => view.times(a).start - view.times(b).start);
      this.found.push(...hits);
    }
    byId('found').textContent = words.length === 0 ? '' : tasks === 0 ? 'no task' : `${tasks} task${tasks > 1 ? 's' : ''}`;
    if (this.graph) this.graph.search(this.active);
    this.changed();
    this.timeline.draw();
  }

  next(by) {
    const count = this.found.length;
    if (count === 0) return;
    this.at = this.at < 0 && by < 0 ? count - 1 : (this.at + by + count) % count;
    this.select(this.found[this.at]);
    byId('found').textContent = `${this.at + 1} of ${count} tasks`;
  }

  // Draws only the critical paths ('path') or what moved between policies ('moved') bright; everything if it did.
  brighten(what) {
    const {timeline} = this;
    if (what !== 'path' && (what !== 'moved' || byId('moved').hidden)) return;
    timeline.bright = timeline.bright === what ? null : what;
    for (const view of timeline.bright === 'path' ? this.views : []) {
      view.ranks.forEach((rank, r) => rank.steps.forEach((step, s) => {
        if (step.path) return;
        step.path = new Uint8Array(view.count);
        for (const slice of view.criticalPath(r, s)) step.path[slice.task] = 1;
      }));
    }
    byId('critical').setAttribute('aria-pressed', String(timeline.bright === 'path'));
    byId('moved').setAttribute('aria-pressed', String(timeline.bright === 'moved'));
    this.changed();
    timeline.draw();
  }

  setSelecting(on) {
    this.timeline.selecting = on;
    byId('select').setAttribute('aria-pressed', String(on));
  }

  async copyLink() {
    this.link.write();
    let told = 'the address of this page links to this view';
    try {
      await navigator.clipboard.writeText(location.href);
      told = 'copied';
    } catch {  // a browser that doesn't let pages write there
    }
    byId('copied').textContent = told;
    setTimeout(() => { byId('copied').textContent = ''; }, 4000);
  }

  setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    byId('theme').textContent = theme === 'dark' ? 'light' : 'dark';
    this.timeline.readColors();
  }

  listen() {
    const dark = matchMedia('(prefers-color-scheme: dark)'), box = byId('search');
    this.setTheme(dark.matches ? 'dark' : 'light');
    dark.addEventListener('change', () => this.setTheme(dark.matches ? 'dark' : 'light'));
    byId('theme').addEventListener('click', () => {
      this.setTheme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark');
    });
    byId('fit').addEventListener('click', () => this.timeline.fit());
    byId('in').addEventListener('click', () => this.timeline.zoom(0.6));
    byId('out').addEventListener('click', () => this.timeline.zoom(1 / 0.6));
    byId('critical').addEventListener('click', () => this.brighten('path'));
    byId('moved').addEventListener('click', () => this.brighten('moved'));
    byId('select').addEventListener('click', () => this.setSelecting(!this.timeline.selecting));
    byId('link').addEventListener('click', () => this.copyLink());
    box.addEventListener('input', () => this.search(box.value));
    box.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.next(event.shiftKey ? -1 : 1);
      if (event.key !== 'Escape') return;
      box.value = '';
      this.search('');
      this.timeline.canvas.focus();
    });
    for (const part of [this.timeline, this.graph]) {
      if (!part) continue;
      (part.canvas || part.pane).addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (part.key(event)) event.preventDefault();
      });
    }
    document.addEventListener('keydown', (event) => {
      const typing = event.target.closest && event.target.closest('input');
      if (event.ctrlKey || event.metaKey || event.altKey || typing) return;
      if (event.key === '/') {
        event.preventDefault();
        box.focus();
        box.select();
      } else if (event.key === 'Escape') {
        this.hover(null);
        this.pin(null);
        this.selectRange(null);
      } else if (event.key === 'Enter' && event.target === this.timeline.canvas) {
        this.next(event.shiftKey ? -1 : 1);
      }
    });
    for (const button of document.querySelectorAll('button[data-run]')) {
      button.addEventListener('click', () => {
        const run = byId(`run-${button.dataset.run}`);
        run.open = true;
        run.scrollIntoView({block: 'start'});
        run.querySelector('summary').focus({preventScroll: true});
      });
    }
    for (const button of document.querySelectorAll('button[data-task]')) {
      button.addEventListener('click', () => {
        const view = this.views.find((one) => one.name === button.dataset.view);
        if (view) this.active = view;
        this.select(this.sliceNamed(button.dataset.task));
        this.timeline.canvas.scrollIntoView({block: 'nearest'});
      });
    }
    const chart = byId('graph');
    if (this.graph) {
      for (const [id, factor] of [['closer', 0.7], ['farther', 1 / 0.7]]) {
        byId(id).addEventListener('click', () => this.graph.zoom(factor));
      }
      byId('graph-fit').addEventListener('click', () => this.graph.fit(true));
      chart.tabIndex = 0;
    }
  }
}

document.documentElement.classList.add('script');
readData(byId('data')).then((data) => new Page(data)).catch((error) => {
  document.documentElement.classList.remove('script');
  const note = byId('trouble');
  note.hidden = false;
  note.textContent = `The interactive parts need a newer browser: ${error.message}`;
});
