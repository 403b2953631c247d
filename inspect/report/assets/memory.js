// Memory over time, below the timeline and on its axis: a curve a policy, of one rank.

const MEMORY_FONT = '11px system-ui, sans-serif';

class MemoryChart {
  constructor(page, views) {
    this.page = page;
    this.curves = views.map((view, i) => {
      const {time, bytes, state} = view.data.memory, at = new Float64Array(time.length), live = new Float64Array(time.length);
      for (let k = 0, t = 0, b = 0; k < time.length; ++k) {
        at[k] = t += time[k];
        live[k] = b += bytes[k];
      }
      return {name: view.name, at, live, state, color: `--curve${i % 6}`};
    }).filter((curve) => curve.at.length > 0);
    this.canvas = document.getElementById('weft-memory');
    this.most = Math.max(1, ...this.curves.map((curve) => curve.live.reduce((a, b) => Math.max(a, b), 0)));
  }

  paint(timeline) {
    this.canvas.hidden = this.curves.length === 0;
    if (this.canvas.hidden) return;
    const canvas = this.canvas, c = canvas.getContext('2d'), width = timeline.width, ratio = devicePixelRatio || 1;
    c.font = MEMORY_FONT;
    const labels = this.labels(c, timeline), top = 22 + labels.at(-1).y - labels[0].y, height = 108 + top;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const {colors} = timeline;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = MEMORY_FONT;
    c.textBaseline = 'middle';
    const bottom = height - 6, y = (bytes) => bottom - bytes / (this.most * 1.05) * (bottom - top);
    for (let i = 0; i <= 2; ++i) {
      const bytes = this.most * i / 2;
      c.strokeStyle = colors.line;
      c.beginPath();
      c.moveTo(timeline.gutter, Math.round(y(bytes)) + 0.5);
      c.lineTo(width, Math.round(y(bytes)) + 0.5);
      c.stroke();
      c.fillStyle = colors.soft;
      c.textAlign = 'right';
      c.fillText(byteText(bytes), timeline.gutter - 8, Math.min(y(bytes), bottom - 5));
    }
    c.textAlign = 'left';
    const style = getComputedStyle(document.documentElement);
    this.curves.forEach((curve, i) => {
      const color = style.getPropertyValue(curve.color).trim(), {left, y: line, text} = labels[i];
      this.paintCurve(c, curve, timeline, y, color);
      c.fillStyle = color;
      c.fillRect(left, line - 2, 10, 3);
      c.fillStyle = colors.ink;
      c.fillText(text, left + 15, line);
    });
  }

  // The curves' names with their peaks, in as many lines as they need; a name without room loses its middle.
  labels(c, timeline) {
    const least = timeline.width < NARROW ? 4 : timeline.gutter;
    let left = least, y = 8;
    return this.curves.map((curve) => {
      const peak = `peak ${byteText(curve.live.reduce((a, b) => Math.max(a, b), 0))}` +
          (curve.state > 0 ? ` + ${byteText(curve.state)} of state` : '');
      const label = (name) => this.curves.length > 1 ? `${name}: ${peak}` : peak;
      const fits = (text, from) => from + 15 + c.measureText(text).width <= timeline.width;
      let text = label(curve.name);
      if (!fits(text, left) && left > least) {
        left = least;
        y += 16;
      }
      for (let kept = curve.name.length - 1; kept > 3 && !fits(text, left); --kept) {
        text = label(`${curve.name.slice(0, Math.ceil(kept / 2))}…${curve.name.slice(curve.name.length - Math.floor(kept / 2))}`);
      }
      const place = {left, y, text};
      left += c.measureText(text).width + 34;
      return place;
    });
  }

  // A pixel shows the greatest of its values.
  paintCurve(c, curve, timeline, y, color) {
    const {at, live} = curve;
    const first = Math.max(0, lowerBound(at, timeline.from) - 1);
    c.strokeStyle = color;
    c.lineWidth = 1.5;
    c.beginPath();
    let pixel = -1, greatest = 0, last = 0, begun = false;
    const flush = () => {
      if (pixel < 0) return;
      const x = timeline.gutter + pixel;
      if (!begun) c.moveTo(x, y(greatest));
      else c.lineTo(x, y(greatest));
      begun = true;
      c.lineTo(x, y(last));
    };
    for (let i = first; i < at.length && at[i] <= timeline.to; ++i) {
      const x = Math.max(0, Math.floor(timeline.x(at[i]) - timeline.gutter));
      if (x !== pixel) {
        flush();
        if (begun) c.lineTo(timeline.gutter + x, y(last));
        pixel = x;
        greatest = live[i];
      }
      greatest = Math.max(greatest, live[i]);
      last = live[i];
    }
    flush();
    if (begun && at.at(-1) > timeline.to) c.lineTo(timeline.width, y(last));
    c.stroke();
    c.lineWidth = 1;
  }
}
