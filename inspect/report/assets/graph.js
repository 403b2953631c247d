// The step's graph: the drawing in the page, made to zoom, to pan, and to select in the timeline what is clicked.

class GraphPane {
  constructor(page, pane) {
    this.page = page;
    this.pane = pane;
    this.svg = pane.querySelector('svg');
    const box = this.svg.viewBox.baseVal;
    this.whole = [box.x, box.y, box.width, box.height];
    this.svg.removeAttribute('width');
    this.svg.removeAttribute('height');
    this.nodes = new Map();    // by task
    this.edgesOf = new Map();  // by Graphviz's name of a box
    this.common = new Map();   // by a task's name without the numbers of layer and micro-batch
    for (const node of this.svg.querySelectorAll('g.node')) this.readNode(node);
    for (const edge of this.svg.querySelectorAll('g.edge')) {
      const title = edge.querySelector('title');
      if (!title) continue;
      for (const name of title.textContent.split('->')) {
        if (!this.edgesOf.has(name)) this.edgesOf.set(name, []);
        this.edgesOf.get(name).push(edge);
      }
      title.remove();
    }
    for (const title of this.svg.querySelectorAll('title')) title.remove();
    this.chosen = null;
    this.fit();
    this.listen();
    new ResizeObserver(() => this.apply()).observe(pane);
  }

  readNode(node) {
    const title = node.querySelector('title');
    node.dataset.box = title ? title.textContent : '';
    for (const link of node.querySelectorAll('a')) link.removeAttributeNS('http://www.w3.org/1999/xlink', 'title');
    const name = node.id;  // of several tasks in one box the first
    node.dataset.task = name;
    this.nodes.set(name, node);
    if (!this.common.has(GraphPane.pattern(name))) this.common.set(GraphPane.pattern(name), node);
  }

  static pattern(name) { return name.replace(/(^|\.)mb\d+(?=\.|$)/, '$1mb*').replace(/(^|\.)L\d+(?=\.|$)/, '$1L*'); }

  // The box of a task: its own, that of the layer drawn for all, or the nearest one that stands for several tasks.
  boxOf(view, task) {
    const name = view.tasks.name[task];
    const own = this.nodes.get(name) || this.common.get(GraphPane.pattern(name));
    if (own) return own;
    let best = null, most = -1;
    for (const [first, element] of this.nodes) {
      const other = view.find(first);
      if (other < 0 || view.tasks.phase[other] !== view.tasks.phase[task]) continue;
      const alike = 2 * (view.tasks.kind[other] === view.tasks.kind[task]) + (view.tasks.micro[other] === view.tasks.micro[task]);
      if (alike > most) most = alike, best = element;
    }
    return best;
  }

  mark(slice) {
    if (this.chosen) {
      this.chosen.classList.remove('chosen');
      for (const edge of this.edgesOf.get(this.chosen.dataset.box) || []) edge.classList.remove('chosen');
    }
    this.chosen = slice ? this.boxOf(slice.view, slice.task) : null;
    if (!this.chosen) return;
    this.chosen.classList.add('chosen');
    for (const edge of this.edgesOf.get(this.chosen.dataset.box) || []) edge.classList.add('chosen');
    this.reveal(this.chosen);
  }

  // A drawing's unit is a point of Graphviz, whose group is moved: boxes are asked for on the screen.
  reveal(element) {
    const box = element.getBoundingClientRect(), pane = this.pane.getBoundingClientRect();
    const inside = box.left >= pane.left && box.right <= pane.right && box.top >= pane.top && box.bottom <= pane.bottom;
    if (inside && box.width > 30) return;
    const scale = this.box[2] / pane.width, wanted = Math.max(pane.width / 900, 0.7);
    const x = this.box[0] + (box.left + box.width / 2 - pane.left) * scale;
    const y = this.box[1] + (box.top + box.height / 2 - pane.top) * scale;
    const width = Math.min(this.box[2], pane.width * wanted), height = width * pane.height / pane.width;
    this.box = [x - width / 2, y - height / 2, width, height];
    this.apply();
  }

  search(view) {
    for (const [name, node] of this.nodes) {
      const task = view.find(name);
      node.classList.toggle('pale', task >= 0 && view.dimmed !== null && view.dimmed[task] === 1);
    }
  }

  // As large as is readable; the whole if that is.
  fit(all = false) {
    const [x, y, width, height] = this.whole, pane = this.pane.getBoundingClientRect();
    const ratio = pane.height > 0 && pane.width > 0 ? pane.height / pane.width : 0.5;
    let size = Math.max(width, height / ratio);
    if (!all && pane.width > 0) size = Math.min(size, pane.width < NARROW ? pane.width * 1.35 : Math.max(width, pane.width * 1.35));
    this.box = [x - Math.max(0, size - width) / 2, y, size, size * ratio];
    this.apply();
  }

  apply() {
    const pane = this.pane.getBoundingClientRect();
    if (pane.width > 0) this.box[3] = this.box[2] * pane.height / pane.width;
    this.svg.setAttribute('viewBox', this.box.map((n) => n.toFixed(2)).join(' '));
  }

  zoom(factor, clientX, clientY) {
    const pane = this.pane.getBoundingClientRect();
    const sx = clientX === undefined ? 0.5 : (clientX - pane.left) / pane.width;
    const sy = clientY === undefined ? 0.5 : (clientY - pane.top) / pane.height;
    const [x, y, width, height] = this.box;
    const by = Math.min(Math.max(factor, 60 / width), 4 * Math.max(this.whole[2], this.whole[3]) / width);
    this.box = [x + width * sx * (1 - by), y + height * sy * (1 - by), width * by, height * by];
    this.apply();
  }
  pan(dx, dy) {
    this.box[0] += dx * this.box[2];
    this.box[1] += dy * this.box[3];
    this.apply();
  }

  sliceOf(target) {
    const node = target.closest ? target.closest('g.node') : null;
    return node && node.dataset.task ? this.page.sliceNamed(node.dataset.task) : null;
  }

  listen() {
    const pane = this.pane;
    let drag = null;
    pane.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 400), event.clientX, event.clientY);
    }, {passive: false});
    pane.addEventListener('pointerdown', (event) => {
      drag = {x: event.clientX, y: event.clientY, box: this.box.slice(), target: event.target, moved: false};
      if (event.isTrusted) pane.setPointerCapture(event.pointerId);
    });
    pane.addEventListener('pointermove', (event) => {
      if (!drag) return this.page.hover(this.sliceOf(event.target), event.clientX, event.clientY);
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
      if (!drag.moved) return;
      const scale = drag.box[2] / pane.clientWidth;
      this.box[0] = drag.box[0] - dx * scale;
      this.box[1] = drag.box[1] - dy * scale;
      this.apply();
    });
    pane.addEventListener('pointerup', () => {
      const slice = drag && !drag.moved ? this.sliceOf(drag.target) : null;
      if (slice) this.page.select(slice);
      drag = null;
    });
    pane.addEventListener('pointercancel', () => { drag = null; });
    pane.addEventListener('pointerleave', () => this.page.hover(null));
  }

  key(event) {
    const actions = {
      ArrowLeft: () => this.pan(-0.1, 0), ArrowRight: () => this.pan(0.1, 0), ArrowUp: () => this.pan(0, -0.1),
      ArrowDown: () => this.pan(0, 0.1), a: () => this.pan(-0.1, 0), d: () => this.pan(0.1, 0),
      w: () => this.zoom(0.8), s: () => this.zoom(1.25), '+': () => this.zoom(0.8), '=': () => this.zoom(0.8),
      '-': () => this.zoom(1.25), f: () => this.fit(true),
    };
    const action = actions[event.key];
    if (action) action();
    return action !== undefined;
  }
}
