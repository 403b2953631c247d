// The fingers on a canvas, so that two of them can pinch. A mouse or a pen counts as one finger.

class Fingers {
  constructor() { this.places = new Map(); }  // [x, y] by pointer

  down(event, place) {
    if (event.isPrimary) this.places.clear();  // a finger that the browser lost is gone
    this.places.set(event.pointerId, place);
  }
  // Whether the finger is down: a mouse also moves while it isn't.
  move(event, place) {
    if (this.places.has(event.pointerId)) this.places.set(event.pointerId, place);
    return this.places.has(event.pointerId);
  }
  up(event) { this.places.delete(event.pointerId); }

  get count() { return this.places.size; }
  get first() { return [...this.places.values()][0]; }
  // The middle between two fingers, and how far apart they are. A least distance keeps a scale from becoming infinite.
  get pair() {
    const [[x1, y1], [x2, y2]] = this.places.values();
    return {x: (x1 + x2) / 2, y: (y1 + y2) / 2, apart: Math.max(16, Math.hypot(x2 - x1, y2 - y1))};
  }
}
