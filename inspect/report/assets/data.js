// Reads the page's data into typed arrays, and answers what timeline, tooltip and graph ask: which slices a row has, who
// waits for whom, which input arrived last, which chain of tasks the step's length comes from.

async function readData(element) {
  const text = element.textContent;
  if (element.dataset.form !== 'gzip') return JSON.parse(text);
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

// The first index whose value is not below `limit`, in values that never fall.
function lowerBound(values, limit) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Indices by key as one array with begins: those of key k stand at [begin[k], begin[k + 1]).
function groupBy(keys, count) {
  const begin = new Uint32Array(count + 1);
  for (let i = 0; i < keys.length; ++i) ++begin[keys[i] + 1];
  for (let k = 0; k < count; ++k) begin[k + 1] += begin[k];
  const next = begin.slice(), index = new Uint32Array(keys.length);
  for (let i = 0; i < keys.length; ++i) index[next[keys[i]]++] = i;
  return {begin, index};
}

const ISSUED_BEFORE = 1;
const EDGE_REASONS = ['its data', 'what it read is written again', 'what it wrote is written again', 'shared memory',
                      'the policy'];

/** One policy's steps. A slice is a task in one step of one rank: {view, rank, step, task}, the middle two indices. */
class View {
  constructor(data, index) {
    this.index = index;
    this.data = data;
    this.name = data.name;
    this.tasks = data.tasks;
    this.count = data.tasks.name.length;
    this.bounds = data.bounds;
    const kinds = data.edges.kind;
    this.edges = {from: Uint32Array.from(data.edges.from), to: Uint32Array.from(data.edges.to), kind: Uint8Array.from(kinds)};
    this.into = groupBy(this.edges.to, this.count);
    this.outOf = groupBy(this.edges.from, this.count);
    this.dimmed = null;  // by task: drawn pale, or null
    this.moved = new Uint8Array(this.count);  // by task: whether it moved from one policy to another
    for (const task of data.moved) this.moved[task] = 1;
    this.ranks = data.ranks.map((rank) => ({number: rank.rank, steps: rank.steps.map((step) => this.unpack(step))}));
    this.rows = [];
    for (let r = 0; r < this.ranks.length; ++r) {
      for (let s = 0; s < data.streams.length; ++s) this.rows.push(this.makeRow(r, s));
    }
    this.end = 0;
    for (const rank of this.ranks) for (const step of rank.steps) this.end = Math.max(this.end, step.end);
    for (const row of this.rows) if (row.size > 0) this.end = Math.max(this.end, row.latest[row.size - 1]);
    for (const bound of this.bounds) this.end = Math.max(this.end, bound.ns);
    this.byName = null;
  }

  unpack(step) {
    const starts = new Float64Array(this.count), ends = new Float64Array(this.count);
    for (let i = 0, at = step.begin; i < this.count; ++i) {
      at += step.start[i];
      starts[i] = at;
      ends[i] = at + step.length[i];
    }
    return {number: step.step, begin: step.begin, end: step.end, facts: step.facts, exposed: step.exposed, starts, ends};
  }

  onStream(stream) {
    const by = this.byStream || (this.byStream = groupBy(this.tasks.stream, this.data.streams.length));
    return by.index.subarray(by.begin[stream], by.begin[stream + 1]);
  }

  makeRow(rank, stream) {
    const steps = this.ranks[rank].steps, tasks = this.onStream(stream), size = tasks.length * steps.length;
    const row = {view: this, rank, stream, size, label: this.data.streams[stream].name,
                 compute: this.data.streams[stream].compute, exposed: [],
                 start: new Float64Array(size), end: new Float64Array(size), latest: new Float64Array(size),
                 task: new Uint32Array(size), step: new Uint16Array(size)};
    const order = new Uint32Array(size), starts = new Float64Array(size);
    let sorted = true;
    for (let i = 0; i < size; ++i) {
      order[i] = i;
      starts[i] = steps[Math.floor(i / tasks.length)].starts[tasks[i % tasks.length]];
      sorted = sorted && (i === 0 || starts[i] >= starts[i - 1]);
    }
    // A stream's entries nearly always begin in their order.
    if (!sorted) order.sort((a, b) => starts[a] - starts[b] || a - b);
    let latest = 0;
    for (let i = 0; i < size; ++i) {
      const s = Math.floor(order[i] / tasks.length), t = tasks[order[i] % tasks.length];
      row.start[i] = steps[s].starts[t];
      row.end[i] = steps[s].ends[t];
      row.latest[i] = latest = Math.max(latest, row.end[i]);
      row.task[i] = t;
      row.step[i] = s;
    }
    let busy = 0, until = -Infinity, whole = 0;
    for (let i = 0; i < size; ++i) {
      busy += Math.max(0, row.end[i] - Math.max(row.start[i], until));
      until = Math.max(until, row.end[i]);
    }
    for (const step of steps) {
      whole += step.end - step.begin;
      const pairs = step.exposed[stream];
      for (let i = 0, at = step.begin; i < pairs.length; i += 2) {
        const from = at + pairs[i];
        at = from + pairs[i + 1];
        row.exposed.push([from, at]);
      }
    }
    row.busy = whole > 0 ? busy / whole : 0;
    return row;
  }

  find(name) {
    if (!this.byName) this.byName = new Map(this.tasks.name.map((n, i) => [n, i]));
    const task = this.byName.get(name);
    return task === undefined ? -1 : task;
  }

  // What a search looks at, in small letters.
  searched(kinds) {
    if (this.words) return this.words;
    const phases = this.data.phases, t = this.tasks;
    this.words = t.name.map((name, task) => [name, this.text('labels', task), this.text('kind', task),
      kinds[t.style[task]].name, this.text('channel', task), this.data.streams[t.stream[task]].name,
      phases[t.phase[task]]].join(' ').toLowerCase());
    return this.words;
  }

  text(column, task) { return this.data.strings[this.tasks[column][task]]; }
  times(slice) {
    const step = this.ranks[slice.rank].steps[slice.step];
    return {start: step.starts[slice.task], end: step.ends[slice.task], step};
  }
  rowOf(slice) { return this.rows[slice.rank * this.data.streams.length + this.tasks.stream[slice.task]]; }

  // What the task waited for, by rising arrival: its edges, and the task before it on its stream. Times of the step
  // before are known only if that was traced.
  dependencies(slice) {
    const list = [], steps = this.ranks[slice.rank].steps;
    const {start, step} = this.times(slice);
    for (let i = this.into.begin[slice.task]; i < this.into.begin[slice.task + 1]; ++i) {
      const edge = this.into.index[i], kind = this.edges.kind[edge], s = slice.step - (kind >> 4);
      if (s < 0 || (kind >> 4 && steps[s].number !== step.number - 1)) continue;
      const from = {...slice, step: s, task: this.edges.from[edge]}, times = this.times(from);
      const why = kind & ISSUED_BEFORE ? 'order of issue' : EDGE_REASONS[(kind >> 1) & 7];
      list.push({slice: from, why, arrival: kind & ISSUED_BEFORE ? times.start : times.end});
    }
    const row = this.rowOf(slice), here = this.positionIn(row, slice);
    if (here > 0) {
      const before = {...slice, step: row.step[here - 1], task: row.task[here - 1]};
      if (before.step === slice.step && !list.some((d) => d.slice.task === before.task && d.slice.step === before.step)) {
        const end = row.end[here - 1];
        if (end <= start) list.push({slice: before, why: 'its stream was busy', arrival: end});
      }
    }
    return list.sort((a, b) => a.arrival - b.arrival);
  }

  dependents(slice) {
    const list = [], steps = this.ranks[slice.rank].steps;
    for (let i = this.outOf.begin[slice.task]; i < this.outOf.begin[slice.task + 1]; ++i) {
      const edge = this.outOf.index[i], kind = this.edges.kind[edge], s = slice.step + (kind >> 4);
      if (s >= steps.length) continue;
      const to = {...slice, step: s, task: this.edges.to[edge]};
      const why = kind & ISSUED_BEFORE ? 'order of issue' : EDGE_REASONS[(kind >> 1) & 7];
      list.push({slice: to, why, arrival: this.times(to).start});
    }
    return list.sort((a, b) => a.arrival - b.arrival);
  }

  positionIn(row, slice) {
    const {start} = this.times(slice);
    for (let i = lowerBound(row.start, start); i < row.size && row.start[i] === start; ++i) {
      if (row.task[i] === slice.task && row.step[i] === slice.step) return i;
    }
    return -1;
  }

  // From the task that ended last back along what arrived last: tasks of one rank, from first to last.
  criticalPath(rank, step) {
    const {ends} = this.ranks[rank].steps[step];
    let last = 0;
    for (let t = 1; t < this.count; ++t) if (ends[t] > ends[last]) last = t;
    const path = [];
    const seen = new Set();
    for (let slice = {view: this, rank, step, task: last}; slice && !seen.has(slice.task);) {
      seen.add(slice.task);
      path.push(slice);
      const inputs = this.dependencies(slice).filter((d) => d.slice.step === step);
      slice = inputs.length > 0 ? inputs[inputs.length - 1].slice : null;
    }
    return path.reverse();
  }
}

const nanoseconds = (ns) => {
  const size = Math.abs(ns);
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(size >= 1e8 ? 1 : 3)} ms`;
  return size >= 1e3 ? `${(ns / 1e3).toFixed(size >= 1e5 ? 1 : 2)} µs` : `${Math.round(ns)} ns`;
};

const quantity = (value, base, units) => {
  let unit = 0;
  for (; value >= base && unit + 1 < units.length; ++unit) value /= base;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
};
const byteText = (bytes) => quantity(bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);
const flopText = (flops) => quantity(flops, 1000, ['flop', 'Kflop', 'Mflop', 'Gflop', 'Tflop', 'Pflop']);
