// A link to what is on the screen: the part of the address after # holds zoom, selection, search and pinned task.

const LINK_DELAY = 200;  // milliseconds: addresses may not change at every frame

class ViewLink {
  constructor(page) {
    this.page = page;
    this.timer = 0;
    this.written = '';
    addEventListener('hashchange', () => { if (location.hash.slice(1) !== this.written) this.apply(location.hash.slice(1)); });
  }

  text() {
    const {timeline, views} = this.page, parts = new URLSearchParams(), {selection, pinned} = timeline;
    if (timeline.from !== timeline.home[0] || timeline.to !== timeline.home[1]) {
      parts.set('zoom', `${Math.round(timeline.from)},${Math.round(timeline.to)}`);
    }
    if (timeline.scroll > 0) parts.set('scroll', String(Math.round(timeline.scroll)));
    if (this.page.query) parts.set('search', this.page.query);
    if (timeline.bright) parts.set('bright', timeline.bright);
    if (timeline.hidden.size > 0) parts.set('dim', [...timeline.hidden].sort().join(','));
    if (selection) {
      parts.set('select', [selection.from, selection.to].map(Math.round).concat(selection.first, selection.last).join(','));
    }
    if (pinned) {
      const {view, rank, step, task} = pinned;
      parts.set('task', [views.indexOf(view), rank, step, view.tasks.name[task]].join(','));
    }
    return parts.toString();
  }

  changed() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), LINK_DELAY);
  }

  write() {
    clearTimeout(this.timer);
    this.written = this.text();
    if (this.written === location.hash.slice(1)) return;
    try {
      history.replaceState(null, '', `#${this.written}`);
    } catch {  // a page without an address of its own
      this.written = location.hash.slice(1);
    }
  }

  // Parts that a link lacks, or holds wrongly, are as at the beginning.
  apply(text) {
    const {page} = this, {timeline, views} = page, parts = new URLSearchParams(text);
    const numbers = (key, count) => {
      const list = (parts.get(key) || '').split(',').map(Number);
      return parts.has(key) && list.length === count && list.every(Number.isFinite) ? list : null;
    };
    const rows = timeline.items.filter((item) => item.row).length;
    const zoom = numbers('zoom', 2), select = numbers('select', 4);
    timeline.look(...(zoom && zoom[0] < zoom[1] ? zoom : timeline.home));
    timeline.scroll = 0;
    timeline.scrollBy(numbers('scroll', 1) ? numbers('scroll', 1)[0] : 0);
    page.setHidden((parts.get('dim') || '').split(',').filter((style) => style !== '').map(Number));
    if (parts.get('bright') !== timeline.bright) page.brighten(parts.get('bright') || timeline.bright);
    byId('search').value = parts.get('search') || '';
    page.search(byId('search').value);
    const inside = select && select[0] < select[1] && select[2] >= 0 && select[2] <= select[3] && select[3] < rows &&
        Number.isInteger(select[2]) && Number.isInteger(select[3]);
    page.selectRange(inside ? {from: select[0], to: select[1], first: select[2], last: select[3]} : null);
    const [index, rank, step, ...name] = (parts.get('task') || '').split(','), view = views[Number(index)];
    const task = view && index !== '' ? view.find(name.join(',')) : -1;
    const known = task >= 0 && view.ranks[rank] && view.ranks[rank].steps[step];
    page.pin(known ? {view, rank: Number(rank), step: Number(step), task} : null);
  }
}
