// Acts on a report as a person would, and logs its observations as JSON.
(() => {
  const seen = {errors: [], violations: []};
  addEventListener('error', (event) => seen.errors.push(event.message));
  addEventListener('unhandledrejection', (event) => seen.errors.push(String(event.reason)));
  document.addEventListener('securitypolicyviolation', (event) => seen.violations.push(event.violatedDirective));
  const byId = (id) => document.getElementById(`weft-${id}`);
  // Frames come when the browser likes, so the driver waits until a frame shows the expected thing.
  const until = async (holds) => {
    for (let i = 0; i < 300 && !holds(); ++i) await new Promise((done) => setTimeout(done, 50));
    return holds();
  };
  const pointer = (element, type, clientX, clientY) =>
      element.dispatchEvent(new PointerEvent(type, {clientX, clientY, bubbles: true, pointerId: 1, buttons: 0}));
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true, cancelable: true}));

  async function act() {
    await until(() => document.documentElement.dataset.ready === 'yes');
    seen.ready = document.documentElement.dataset.ready || 'no';
    seen.trouble = byId('trouble').textContent;
    const canvas = byId('canvas'), box = canvas.getBoundingClientRect();
    seen.blue = await until(() => {  // matrix products
      const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      for (let i = 0; i < pixels.length; i += 4) {
        if ((pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]) === 0x56B4E9) return true;
      }
      return false;
    });

    // The first row lies below the first head.
    let x = box.left + 140;
    for (; byId('tip').hidden && x < box.right; x += 5) pointer(canvas, 'pointermove', x, box.top + 34);
    seen.tip = byId('tip').textContent;
    pointer(canvas, 'pointerdown', x - 5, box.top + 34);
    pointer(canvas, 'pointerup', x - 5, box.top + 34);
    seen.pinned = byId('details').querySelector('h3').firstChild.textContent;

    const search = byId('search');
    key(document.body, '/');
    seen.focus = document.activeElement === search;
    search.value = 'MLP.up';
    search.dispatchEvent(new Event('input'));
    seen.found = byId('found').textContent;
    key(search, 'Enter');
    seen.first = byId('details').querySelector('h3').firstChild.textContent;
    seen.count = byId('found').textContent;
    key(search, 'Enter');
    seen.second = byId('found').textContent;
    key(search, 'Escape');
    seen.cleared = byId('found').textContent;
    seen.back = document.activeElement === canvas;

    key(canvas, 'Home');
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const before = canvas.toDataURL();
    key(canvas, '+');
    seen.zoomed = await until(() => canvas.toDataURL() !== before);
    key(canvas, 'f');
    key(canvas, 'c');
    seen.critical = byId('critical').getAttribute('aria-pressed');
    key(canvas, 'c');

    // Labels keep the end of a name where there is no room for all of it.
    const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const written = [], fillText = CanvasRenderingContext2D.prototype.fillText;
    seen.memory_cut = [];  // labels of the memory chart that end outside it
    CanvasRenderingContext2D.prototype.fillText = function(text, x, ...rest) {
      written.push(String(text));
      const ends = this.textAlign === 'right' ? x : x + this.measureText(text).width;
      if (this.canvas.id === 'weft-memory' && ends > parseFloat(getComputedStyle(this.canvas).width) + 1) seen.memory_cut.push(text);
      fillText.call(this, text, x, ...rest);
    };
    const writes = async () => { written.length = 0; key(canvas, 'Home'); await frame(); return written.slice(); };
    seen.labels = await writes();
    seen.peaks = seen.labels.filter((text) => text.includes('peak '));

    // Words in any order, which all must match.
    const found = (words) => {
      search.value = words;
      search.dispatchEvent(new Event('input'));
      return parseInt(byId('found').textContent, 10) || 0;
    };
    seen.words = {up: found('mlp.up'), up_l1: found('L1 mlp.up'), l1_up: found('up gemm  L1'), none: found('L1 L2'), l: found('L1')};
    found('');

    // The span that Shift drags over is summed, and so is the whole view.
    const drag = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {clientX: x, clientY: y, bubbles: true, pointerId: 1, shiftKey: true}));
    const sums = () => {
      const cells = [...byId('sums').querySelectorAll('tr')].slice(1).map((row) => [...row.children].map((cell) => cell.textContent));
      return {hidden: byId('sums').hidden, cells, head: byId('sums').hidden ? '' : byId('sums').querySelector('h3').firstChild.textContent};
    };
    key(canvas, 'Home');
    key(canvas, 'x');
    seen.all = sums();
    drag('pointerdown', box.left + 400, box.top + 30);
    drag('pointermove', box.left + 500, box.top + 30);
    drag('pointerup', box.left + 500, box.top + 30);
    seen.part = sums();

    // A link brings back zoom, selection, search and the pinned task; a link of nonsense brings back nothing.
    key(canvas, '+');
    found('gemm');
    key(search, 'Enter');
    const state = () => ({hash: location.hash, sums: sums().head, found: byId('found').textContent, search: search.value,
                          pinned: byId('details').hidden ? '' : byId('details').querySelector('h3').firstChild.textContent});
    await until(() => location.hash.includes('task='));
    seen.linked = state();
    const opened = async (hash) => { location.hash = hash; await new Promise((done) => setTimeout(done, 400)); return state(); };
    seen.cleared_link = await opened('#');
    seen.reopened = await opened(seen.linked.hash);
    seen.nonsense = await opened('#zoom=9,x&select=1,2,0,999&task=7,0,0,a&bright=red&dim=x&scroll=no');
    await opened('#');

    // Two fingers pinch: the time between them stays there. Links tell it in nanoseconds, and fingers stand at shares
    // of the width.
    const finger = (type, pointerId, x, y) =>
        canvas.dispatchEvent(new PointerEvent(type, {clientX: box.left + x, clientY: box.top + y, bubbles: true, pointerId, pointerType: 'touch'}));
    const zoom = async () => {
      await new Promise((done) => setTimeout(done, 300));
      const [, from, to] = /zoom=(-?[0-9]+)(?:,|%2C)(-?[0-9]+)/.exec(location.hash) || [0, 0, 0];
      return [Number(from), Number(to)];
    };
    const gutter = Number(canvas.dataset.gutter), plot = parseFloat(getComputedStyle(canvas).width) - gutter;
    const places = (shares) => shares.map((share) => gutter + share * plot);
    key(canvas, 'Home');
    key(canvas, '+');
    key(canvas, '+');
    seen.pinch = {before: await zoom(), pinned: state().pinned};
    const [left, wide_left, right, wide_right] = places([0.3, 0.2, 0.5, 0.6]);
    finger('pointerdown', 11, left, 34);
    finger('pointerdown', 12, right, 34);
    finger('pointermove', 11, wide_left, 34);
    finger('pointermove', 12, wide_right, 34);
    seen.pinch.apart = await zoom();  // twice as far, about 0.4 of the width
    const [moved_left, moved_right] = places([0.5, 0.9]);
    finger('pointermove', 11, moved_left, 34);
    finger('pointermove', 12, moved_right, 34);
    seen.pinch.moved = await zoom();  // as far, about 0.7
    finger('pointerup', 12, moved_right, 34);
    finger('pointermove', 11, moved_left - 0.2 * plot, 34);
    seen.pinch.dragged = await zoom();  // the other finger drags on
    finger('pointerup', 11, moved_left - 0.2 * plot, 34);
    seen.pinch.still_pinned = state().pinned;
    await opened('#');

    // A chart tells its values at the pointer, and at the steps that arrow keys go to.
    const chart = document.querySelector('figure[data-chart]');
    if (chart) {
      const place = chart.querySelector('svg').getBoundingClientRect();
      pointer(chart.querySelector('svg'), 'pointermove', place.right - 4, place.top + 40);
      seen.chart_last = byId('tip').textContent;
      key(chart, 'ArrowLeft');
      seen.chart_before = byId('tip').textContent;
      pointer(chart.querySelector('svg'), 'pointerleave', 0, 0);
      seen.chart_left = byId('tip').hidden;
    }

    // A run's name opens its part, and every step of any run can be read off the charts.
    const run = document.querySelector('button[data-run="1"]');
    if (run) {
      const part = document.getElementById('weft-run-1');
      seen.run_folded = !part.open;
      run.click();
      seen.run_open = part.open;
      seen.run_near = part.getBoundingClientRect().top < innerHeight;
      seen.run_hash = location.hash;
    }

    // Tasks that moved between policies are drawn bright.
    seen.can_move = !byId('moved').hidden;
    if (seen.can_move) {
      byId('moved').click();
      seen.moved = byId('moved').getAttribute('aria-pressed');
      key(canvas, 'm');
      seen.unmoved = byId('moved').getAttribute('aria-pressed');
    }
    // Tables that are cut off, and those of them without a hint.
    const tables = [...document.querySelectorAll('.wide')].filter((one) => one.scrollWidth > one.clientWidth + 1);
    seen.scrolling = tables.length;
    seen.unhinted = tables.filter((one) => one.nextElementSibling.getBoundingClientRect().height === 0).length;
    seen.wide = document.documentElement.scrollWidth > innerWidth + 1;
    seen.cut = [...document.querySelectorAll('.tools button')].filter((b) => !b.hidden && b.getBoundingClientRect().right > innerWidth).length;

    const node = document.querySelector('#weft-graph g.node:not(.merged)');
    if (node) {
      const place = node.getBoundingClientRect();
      pointer(node, 'pointerdown', place.left, place.top);
      pointer(node, 'pointerup', place.left, place.top);
      seen.node = node.id;
      seen.of_node = byId('details').querySelector('h3').firstChild.textContent;
      seen.chosen = node.classList.contains('chosen');
    }
    key(document.body, 'Escape');
    seen.unpinned = byId('details').hidden;

    const paper = getComputedStyle(document.body).backgroundColor;
    byId('theme').click();
    seen.themed = getComputedStyle(document.body).backgroundColor !== paper;
    seen.loaded = performance.getEntriesByType('resource').length;
    seen.bold = document.querySelectorAll('main b.made').length;
  }

  act().catch((error) => seen.errors.push(String(error.stack))).then(() => {
    console.log(`weft-driver ${encodeURIComponent(JSON.stringify(seen))}`);
  });
})();
