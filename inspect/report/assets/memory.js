// Memory over time, below the timeline and on its axis: a curve a policy, of one rank.

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
    const height = 130, width = timeline.width, ratio = devicePixelRatio || 1, canvas = this.canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const c = canvas.getContext('2d'), {colors} = timeline;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, height);
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'middle';
    const top = 22, bottom = height - 6, y = (bytes) => bottom - bytes / (this.most * 1.05) * (bottom - top);
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
    let left = timeline.gutter;
    for (const curve of this.curves) {
      const color = style.getPropertyValue(curve.color).trim();
      this.paintCurve(c, curve, timeline, y, color);
      const label = `${this.curves.length > 1 ? `${curve.name}: ` : ''}peak ${byteText(curve.live.reduce((a, b) => Math.max(a, b), 0))}` +
          (curve.state > 0 ? ` + ${byteText(curve.state)} of state` : '');
      c.fillStyle = color;
      c.fillRect(left, 6, 10, 3);
      c.fillStyle = colors.ink;
      c.fillText(label, left + 15, 8);
      left += c.measureText(label).width + 34;
    }
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
