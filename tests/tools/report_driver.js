// Acts on a report as a person would, and logs what it saw as JSON.
(() => {
  const seen = {errors: [], violations: []};
  addEventListener('error', (event) => seen.errors.push(event.message));
  addEventListener('unhandledrejection', (event) => seen.errors.push(String(event.reason)));
  document.addEventListener('securitypolicyviolation', (event) => seen.violations.push(event.violatedDirective));
  const byId = (id) => document.getElementById(`weft-${id}`);
  // Frames come when the browser likes: what is to be seen in one is waited for.
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
