// The charts over steps: the pointer, or arrow keys, read values off the curves.

class StepCharts {
  constructor(page, charts) {
    this.page = page;
    for (const figure of document.querySelectorAll('figure[data-chart]')) this.listen(figure, charts[figure.dataset.chart]);
  }

  listen(figure, chart) {
    const svg = figure.querySelector('svg'), {left, width} = svg.dataset, box = svg.viewBox.baseVal;
    // The steps of all curves: runs side by side may begin and end at others.
    const steps = [...new Set([...chart.curves, chart.dots].flatMap((curve) => curve.steps))].sort((a, b) => a - b);
    const first = steps[0], last = steps.at(-1);
    const guide = document.createElementNS(svg.namespaceURI, 'line');
    let at = steps.length - 1;
    for (const [key, value] of [['class', 'guide'], ['y1', 20], ['y2', box.height - 24]]) guide.setAttribute(key, value);
    const show = () => {
      const share = last > first ? (steps[at] - first) / (last - first) : 0, x = Number(left) + share * Number(width);
      guide.setAttribute('x1', x);
      guide.setAttribute('x2', x);
      svg.append(guide);
      const place = svg.getBoundingClientRect();
      this.page.tell(this.text(chart, steps[at]), place.left + x / box.width * place.width, place.top + 24);
    };
    const hide = () => {
      guide.remove();
      this.page.hover(null);
    };
    svg.addEventListener('pointermove', (event) => {
      const place = svg.getBoundingClientRect(), x = (event.clientX - place.left) / place.width * box.width;
      const step = first + (x - left) / width * (last - first), after = Math.min(lowerBound(steps, step), steps.length - 1);
      at = after > 0 && step - steps[after - 1] < steps[after] - step ? after - 1 : after;
      show();
    });
    svg.addEventListener('pointerleave', hide);
    figure.tabIndex = 0;
    figure.addEventListener('blur', hide);
    figure.addEventListener('keydown', (event) => {
      const by = {ArrowLeft: -1, ArrowRight: 1, Home: -steps.length, End: steps.length}[event.key];
      if (!by) return;
      at = Math.max(0, Math.min(at + by, steps.length - 1));
      event.preventDefault();
      show();
    });
  }

  // The step, then what each curve and the dots have there.
  text(chart, step) {
    const list = [], first = Math.min(...chart.curves.map((curve) => curve.steps[0]));
    for (const {name, steps, values} of [...chart.curves, chart.dots]) {
      const at = lowerBound(steps, step);
      if (steps[at] === step) list.push(`${name} ${Number(values[at].toPrecision(6))}`);
    }
    return `${step < first ? `before step ${first}` : `step ${step}`}: ${list.join(', ')}`;
  }
}
