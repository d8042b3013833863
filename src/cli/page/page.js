'use strict';
// Draws the page from the JSON in #data. Names in it are untrusted: they reach the document as text
// nodes only.
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');
const SVG = 'http://www.w3.org/2000/svg';
const redraws = [];

// ---- small helpers

function el(parent, tag, attributes = {}, text) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
}
function draw(parent, tag, attributes = {}, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const dark = () => document.documentElement.dataset.theme === 'dark';

function scaled(value, units, digits = 3) {
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(value) >= 999.5) { value /= 1000; unit += 1; }
  const text = unit === 0 && Number.isInteger(value) ? String(value) : Number(value.toPrecision(digits)).toString();
  return text + ' ' + units[unit];
}
const bytes = (value) => scaled(value, ['B', 'KB', 'MB', 'GB', 'TB', 'PB', 'EB']);
function seconds(value) {
  if (value === 0) return '0 s';
  if (value >= 1) return Number(value.toPrecision(3)) + ' s';
  return value >= 1e-3 ? Number((value * 1e3).toPrecision(3)) + ' ms' : Number((value * 1e6).toPrecision(3)) + ' \u00b5s';
}
const count = (value) => value.toLocaleString('en-US');
const percent = (value) => Number((100 * value).toPrecision(3)) + ' %';

// Round steps for an axis from 0 to `most`.
function ticks(most, wanted = 4) {
  if (!(most > 0)) return [0];
  const raw = most / wanted, base = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * base).find((s) => s >= raw * 0.999);
  const out = [];
  for (let i = 0; i * step <= most * 1.0001; ++i) out.push(i * step);
  return out;
}

// ---- colours: readable without red and green (cividis; Okabe and Ito)

const CIVIDIS = [[0, 32, 77], [0, 51, 111], [57, 72, 107], [87, 93, 109], [112, 113, 115],
  [138, 135, 121], [166, 157, 117], [196, 181, 108], [228, 207, 91], [255, 234, 70]];
function heat(part) {
  // More is further from the background: dark on light, bright on dark.
  const at = Math.min(1, Math.max(0, dark() ? part : 1 - part)) * (CIVIDIS.length - 1);
  const low = Math.floor(at), high = Math.min(CIVIDIS.length - 1, low + 1), mix = at - low;
  return CIVIDIS[low].map((c, i) => Math.round(c + (CIVIDIS[high][i] - c) * mix));
}
const heatText = (part) => 'rgb(' + heat(part).join(',') + ')';
const SETS = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#f0e442', '#7f8fa6'];
const setColor = (i, n) => n <= SETS.length ? SETS[i] : heatText((i + 0.5) / n);
function inkOn(fill) {
  const m = fill.startsWith('#') ? [1, 3, 5].map((i) => parseInt(fill.slice(i, i + 2), 16)) : fill.match(/\d+/g).map(Number);
  return 0.299 * m[0] + 0.587 * m[1] + 0.114 * m[2] > 140 ? '#10151d' : '#ffffff';
}

// ---- hints

const tip = el(document.body, 'div', {id: 'tip', role: 'status'});
function hint(event, text) {
  tip.style.visibility = text ? 'visible' : 'hidden';
  if (!text) return;
  tip.textContent = text;
  const wide = tip.offsetWidth, high = tip.offsetHeight;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - wide - 8) + 'px';
  tip.style.top = (event.clientY + 16 + high > innerHeight ? event.clientY - high - 10 : event.clientY + 16) + 'px';
}
function hinted(node, text) {
  node.addEventListener('mousemove', (event) => hint(event, typeof text === 'function' ? text(event) : text));
  node.addEventListener('mouseleave', (event) => hint(event, ''));
}

// ---- frames

function section(id, title, text, half) {
  const node = el(main, 'section', half ? {id, class: 'half'} : {id});
  el(node, 'h2', {}, title);
  if (text) el(node, 'p', {}, text);
  return node;
}
function figure(parent, paint) {
  const box = el(parent, 'div', {class: 'figure'});
  const again = () => { box.replaceChildren(); paint(box, Math.max(280, box.clientWidth)); };
  redraws.push(again);
  again();
  return again;
}
function svgIn(box, width, height, label) {
  return draw(box, 'svg', {viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label});
}
function legend(parent, entries) {
  const box = el(parent, 'div', {class: 'legend'});
  for (const [fill, text] of entries) {
    const item = el(box, 'span');
    const chip = el(item, 'i', {class: fill === 'bound' ? 'chip dash' : 'chip'});
    if (fill !== 'bound') chip.style.background = fill;
    el(item, 'span', {}, text);
  }
}

// ---- key numbers

function tiles(list) {
  const box = el(main, 'div', {class: 'tiles', id: 'tiles'});
  const show = {bytes, seconds, count, percent, text: String, factor: (v) => Number(v.toPrecision(3)) + '\u00d7'};
  for (const tile of list) {
    const node = el(box, 'div', {class: 'tile', 'data-key': tile.key, 'data-value': tile.value});
    el(node, 'div', {class: 'label'}, tile.label);
    el(node, 'div', {class: 'value'}, show[tile.unit](tile.value));
    if (tile.note) el(node, 'div', {class: 'note'}, tile.note);
  }
}

// ---- who sends what to whom

function matrix(views) {
  const node = section('matrix', 'Who reads how much from whom',
    'One column per worker that is read, one row per receiver. The darker (in the dark: the brighter) a cell, the more bytes.');
  const bar = el(node, 'div', {class: 'row'});
  let view = views[0];
  const buttons = views.map((each) => {
    const button = el(bar, 'button', {type: 'button', 'aria-pressed': String(each === view)}, each.title);
    button.addEventListener('click', () => {
      view = each;
      buttons.forEach((b, i) => b.setAttribute('aria-pressed', String(views[i] === view)));
      again();
    });
    return button;
  });
  if (views.length < 2) bar.remove();
  const again = figure(node, (box, width) => paintMatrix(box, width, view));
}
function paintMatrix(box, width, view) {
  const {rows, columns, cells} = view;
  const left = 64, top = 26, right = 96, bottom = 30;
  const cellWide = Math.max(1, Math.min(72, (width - left - right) / columns));
  const cellHigh = Math.max(1, Math.min(36, Math.max(cellWide * 0.6, Math.min(4, 560 / rows)), 560 / rows));
  const wide = cellWide * columns, high = cellHigh * rows;
  const height = top + high + bottom, ratio = window.devicePixelRatio || 1;
  const canvas = el(box, 'canvas', {role: 'img', 'aria-label': view.title,
    'data-rows': rows, 'data-columns': columns, width: Math.round(width * ratio), height: Math.round(height * ratio)});
  canvas.style.height = height + 'px';
  const g = canvas.getContext('2d');
  g.scale(ratio, ratio);
  const most = cells.reduce((a, b) => Math.max(a, b), 0);
  g.fillStyle = color('soft');
  g.fillRect(left, top, wide, high);
  const gap = Math.min(cellWide, cellHigh) > 9 ? 1 : 0;
  for (let r = 0; r < rows; ++r) {
    for (let c = 0; c < columns; ++c) {
      const value = cells[r * columns + c];
      if (value === 0) continue;
      g.fillStyle = heatText(0.08 + 0.92 * value / most);
      // Whole pixels where cells are small, so that no seams show.
      const x0 = left + c * cellWide, y0 = top + r * cellHigh;
      const x = gap ? x0 : Math.floor(x0), y = gap ? y0 : Math.floor(y0);
      const w = gap ? cellWide : Math.ceil(x0 + cellWide) - x, h = gap ? cellHigh : Math.ceil(y0 + cellHigh) - y;
      g.fillRect(x, y, Math.max(1, w - gap), Math.max(1, h - gap));
      if (cellWide > 52 && cellHigh > 17) {
        g.fillStyle = inkOn(heatText(0.08 + 0.92 * value / most));
        g.font = '11px system-ui, sans-serif';
        g.textAlign = 'center';
        g.textBaseline = 'middle';
        g.fillText(bytes(value), x + cellWide / 2, y + cellHigh / 2);
      }
    }
  }
  g.fillStyle = color('muted');
  g.strokeStyle = color('muted');
  g.font = '11px system-ui, sans-serif';
  g.textBaseline = 'middle';
  const step = (n, size, room) => [1, 2, 4, 8, 16, 32, 64, 128, 256].find((s) => s * size >= room) || n;
  const sx = step(columns, cellWide, 34), sy = step(rows, cellHigh, 16);
  g.textAlign = 'center';
  for (let c = 0; c < columns; c += sx) g.fillText(String(c * view.column_step), left + (c + 0.5) * cellWide, top - 9);
  g.textAlign = 'right';
  for (let r = 0; r < rows; r += sy) g.fillText(String(r * view.row_step), left - 6, top + (r + 0.5) * cellHigh);
  g.globalAlpha = 0.35;
  for (const at of view.column_hosts) { g.beginPath(); g.moveTo(left + at * cellWide, top); g.lineTo(left + at * cellWide, top + high); g.stroke(); }
  for (const at of view.row_hosts) { g.beginPath(); g.moveTo(left, top + at * cellHigh); g.lineTo(left + wide, top + at * cellHigh); g.stroke(); }
  g.globalAlpha = 1;
  g.textAlign = 'left';
  g.fillText(view.column_label, left, top + high + 16);
  g.save();
  g.translate(14, top + Math.min(high, 560) / 2);
  g.rotate(-Math.PI / 2);
  g.textAlign = 'center';
  g.fillText(view.row_label, 0, 0);
  g.restore();
  // The scale.
  const x = left + wide + 18, tall = Math.max(70, Math.min(high, 220));
  for (let i = 0; i < tall; ++i) {
    g.fillStyle = heatText(0.08 + 0.92 * (1 - i / tall));
    g.fillRect(x, top + i, 12, 1.5);
  }
  g.fillStyle = color('muted');
  for (const t of [0, 0.5, 1]) g.fillText(bytes(most * t), x + 18, Math.min(top + (1 - t) * tall + (t === 1 ? 5 : 0), height - 4));
  hinted(canvas, (event) => {
    const c = Math.floor((event.offsetX - left) / cellWide), r = Math.floor((event.offsetY - top) / cellHigh);
    if (c < 0 || r < 0 || c >= columns || r >= rows) return '';
    const name = (names, at, by) => by === 1 ? names[at] : `${names[at * by]} to ${names[Math.min(names.length, (at + 1) * by) - 1]}`;
    return `${name(view.row_names, r, view.row_step)} reads ${bytes(cells[r * columns + c])}\nfrom ${name(view.column_names, c, view.column_step)}`;
  });
}

// ---- loads with their bounds

function loads(list) {
  const node = section('loads', 'Load of every link, and the bound',
    'No division of the bytes can make the busiest link of a kind less busy than the dashed bound.');
  const grid = el(node, 'div', {class: 'two'});
  for (const load of list) {
    const half = el(grid, 'div', {'data-load': load.kind, 'data-largest': load.largest, 'data-bound': load.bound});
    el(half, 'h3', {}, load.title + (load.binds ? ' (this binds)' : ''));
    figure(half, (box, width) => {
      const height = 190, left = 58, right = 10, top = 16, bottom = 24;
      const svg = svgIn(box, width, height, load.title);
      const most = Math.max(load.bound, load.largest, 1), n = load.values.length;
      const y = (v) => height - bottom - (height - top - bottom) * v / (most * 1.12);
      const wide = (width - left - right) / n;
      for (const t of ticks(most)) {
        draw(svg, 'line', {class: 'axis', x1: left, x2: width - right, y1: y(t), y2: y(t)});
        draw(svg, 'text', {x: left - 6, y: y(t) + 4, 'text-anchor': 'end'}, bytes(t));
      }
      const gap = wide > 6 ? 1 : 0;
      load.values.forEach((value, i) => {
        if (value === 0) return;
        const bar = draw(svg, 'rect', {x: left + i * wide, y: y(value), width: Math.max(0.4, wide - gap),
          height: Math.max(0.5, y(0) - y(value)), fill: load.binds ? 'var(--accent)' : 'var(--third)', opacity: 0.85});
        hinted(bar, `${load.names[i]}\n${bytes(value)}`);
      });
      draw(svg, 'line', {class: 'bound', x1: left, x2: width - right, y1: y(load.bound), y2: y(load.bound)});
      draw(svg, 'text', {class: 'bound', x: width - right, y: y(load.bound) - 5, 'text-anchor': 'end'}, 'bound ' + bytes(load.bound));
      draw(svg, 'text', {x: left, y: height - 6}, `${count(n)} ${load.unit}; largest ${bytes(load.largest)}, mean ${bytes(load.mean)}, smallest ${bytes(load.smallest)}`);
    });
  }
}

// ---- one tensor on both sides

function tensors(cut) {
  const node = section('tensors', 'How a tensor is cut on both sides', cut.note);
  const bar = el(node, 'div', {class: 'row'});
  const search = el(bar, 'input', {type: 'search', placeholder: 'part of a name', 'aria-label': 'Filter tensors'});
  const select = el(bar, 'select', {'aria-label': 'Tensor'});
  const fill = () => {
    const old = select.value;
    select.replaceChildren();
    cut.list.forEach((tensor, i) => {
      if (tensor.name.includes(search.value)) {
        el(select, 'option', {value: i}, `${tensor.name}  [${tensor.shape.join(', ')}] ${tensor.dtype}`);
      }
    });
    if ([...select.options].some((o) => o.value === old)) select.value = old;
  };
  fill();
  select.value = String(cut.first);
  const grid = el(node, 'div', {class: 'two'});
  const sides = [['from', 'Trainers hold', el(grid, 'div', {id: 'cut-from'})], ['to', 'Receivers need', el(grid, 'div', {id: 'cut-to'})]];
  const paint = () => {
    const tensor = cut.list[Number(select.value)];
    if (!tensor) return;
    for (const [key, title, box] of sides) paintCut(box, title, tensor, tensor[key]);
  };
  search.addEventListener('input', () => { fill(); paint(); });
  select.addEventListener('change', paint);
  redraws.push(paint);
  paint();
}
const span = (p) => p[1] === 1 ? String(p[0]) : `${p[0]}:${p[0] + (p[1] - 1) * p[2] + 1}${p[2] === 1 ? '' : ':' + p[2]}`;
function paintCut(box, title, tensor, boxes) {
  box.replaceChildren();
  const sets = [...new Set(boxes.map((b) => b.who))];
  el(box, 'h3', {}, sets.length === 0 ? title + ': nobody' :
    `${title}: ${boxes.length} ${boxes.length === 1 ? 'box' : 'boxes'}, ${sets.length} ${sets.length === 1 ? 'set of workers' : 'sets of workers'}`);
  const width = Math.max(260, box.clientWidth), left = 52, top = 18;
  const shape = tensor.shape.length === 0 ? [1] : tensor.shape;
  const rows = shape.length === 1 ? 1 : shape[0], columns = shape.length === 1 ? shape[0] : shape.slice(1).reduce((a, b) => a * b, 1);
  const wide = width - left - 8;
  const high = shape.length === 1 ? 46 : Math.max(90, Math.min(260, wide * Math.sqrt(rows / columns) * 0.6));
  const svg = svgIn(box, width, top + high + 8, title);
  draw(svg, 'rect', {x: left, y: top, width: wide, height: high, fill: 'var(--soft)', stroke: 'var(--line)'});
  draw(svg, 'text', {x: left, y: 12}, shape.length === 1 ? `${count(columns)} elements` : `${count(columns)} columns`);
  if (shape.length > 1) draw(svg, 'text', {x: left - 6, y: top + 10, 'text-anchor': 'end'}, count(rows));
  if (shape.length > 1) draw(svg, 'text', {x: left - 6, y: top + 24, 'text-anchor': 'end'}, 'rows');
  const whole = [0, 1, 1];
  for (const b of boxes) {
    const i = sets.indexOf(b.who), fill = setColor(i, sets.length);
    const down = shape.length === 1 ? whole : b.box[0];
    const across = shape.length === 1 ? b.box[0] : shape.length === 2 ? b.box[1] : [0, columns, 1];
    const text = `${b.who}\n[${b.box.map(span).join(', ')}]\n${bytes(b.bytes)}`;
    const group = draw(svg, 'g');
    hinted(group, text);
    const strips = (p) => {
      if (p[2] === 1 || p[1] === 1) return [[p[0], p[1]]];
      if (p[1] > 64) return [[p[0], (p[1] - 1) * p[2] + 1]];
      return Array.from({length: p[1]}, (_, k) => [p[0] + k * p[2], 1]);
    };
    let largest = null;
    for (const [y0, h] of strips(down)) {
      for (const [x0, w] of strips(across)) {
        const x = left + wide * x0 / columns, y = top + high * y0 / rows;
        const ww = Math.max(0.7, wide * w / columns), hh = Math.max(0.7, high * h / rows);
        draw(group, 'rect', {x, y, width: ww, height: hh, fill, stroke: 'var(--card)', 'stroke-width': ww > 8 && hh > 8 ? 1 : 0.2});
        if (!largest || ww * hh > largest.ww * largest.hh) largest = {x, y, ww, hh};
      }
    }
    if (largest && largest.ww > 7 * Math.min(b.who.length, 22) + 8 && largest.hh > 15) {
      const label = draw(group, 'text', {x: largest.x + largest.ww / 2, y: largest.y + largest.hh / 2 + 4, 'text-anchor': 'middle'},
        b.who.length > 22 ? b.who.slice(0, 21) + '\u2026' : b.who);
      label.style.fill = inkOn(fill);
    }
  }
  const scroll = el(box, 'div', {class: 'scroll'});
  const table = el(scroll, 'table');
  const head = el(table, 'tr');
  for (const [text, kind] of [['', ''], ['workers', ''], ['box', ''], ['bytes', 'number']]) el(head, 'th', kind ? {class: kind} : {}, text);
  for (const b of boxes.slice(0, 64)) {
    const line = el(table, 'tr');
    el(el(line, 'td'), 'div', {class: 'chip'}).style.background = setColor(sets.indexOf(b.who), sets.length);
    el(line, 'td', {}, b.who);
    el(line, 'td', {}, '[' + b.box.map(span).join(', ') + ']');
    el(line, 'td', {class: 'number'}, bytes(b.bytes));
  }
  if (boxes.length > 64) el(box, 'p', {}, `and ${count(boxes.length - 64)} more`);
}

// ---- time

const LINES = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#d55e00', '#56b4e9', '#7f8fa6'];
function usage(parent, way, most) {
  figure(parent, (box, width) => {
    const height = 190, left = 46, right = 14, top = 12, bottom = 26;
    const svg = svgIn(box, width, height, 'Links in use over time');
    const x = (t) => left + (width - left - right) * t / (most || 1), y = (p) => height - bottom - (height - top - bottom) * p;
    for (const p of [0, 0.25, 0.5, 0.75, 1]) {
      draw(svg, 'line', {class: 'axis', x1: left, x2: width - right, y1: y(p), y2: y(p)});
      draw(svg, 'text', {x: left - 6, y: y(p) + 4, 'text-anchor': 'end'}, 100 * p + ' %');
    }
    for (const t of ticks(most, 6)) draw(svg, 'text', {x: x(t), y: height - 8, 'text-anchor': 'middle'}, seconds(t));
    way.usage.forEach((each, k) => {
      const step = way.seconds / each.part.length;
      let path = `M${x(0)},${y(0)}`;
      each.part.forEach((p, i) => { path += `L${x(i * step).toFixed(1)},${y(p).toFixed(1)}L${x((i + 1) * step).toFixed(1)},${y(p).toFixed(1)}`; });
      path += `L${x(way.seconds)},${y(0)}`;
      draw(svg, 'path', {d: path, fill: LINES[each.index], 'fill-opacity': 0.07, stroke: LINES[each.index], 'stroke-width': 1.8, 'stroke-linejoin': 'round'});
    });
    if (way.bound) {
      draw(svg, 'line', {class: 'bound', x1: x(way.bound), x2: x(way.bound), y1: top, y2: height - bottom});
    }
    svg.addEventListener('mousemove', (event) => {
      const t = (event.offsetX - left) / (width - left - right) * most;
      if (t < 0 || t > way.seconds) { hint(event, ''); return; }
      hint(event, [seconds(t), ...way.usage.map((u) => `${u.title}: ${percent(u.part[Math.min(u.part.length - 1, Math.floor(t / way.seconds * u.part.length))])}`)].join('\n'));
    });
    svg.addEventListener('mouseleave', (event) => hint(event, ''));
  });
  legend(parent, [...way.usage.map((u) => [LINES[u.index], `${u.title} (mean ${percent(u.part.reduce((a, b) => a + b, 0) / u.part.length)})`]),
    ...(way.bound ? [['bound', 'what binds: ' + seconds(way.bound)]] : [])]);
}
function timeline(way) {
  const node = section('timeline', 'Time line of the estimate',
    `The update, simulated: ${seconds(way.seconds)}${way.bound ? `; what binds takes ${seconds(way.bound)}` : ''}. Above: how much of each kind of link is in use. Below: when each receiver has what it reads from trainers, and all.`);
  node.dataset.seconds = way.seconds;
  usage(node, way, way.seconds);
  el(node, 'div', {class: 'sub'}, 'Receivers');
  figure(node, (box, width) => {
    const n = way.receivers.length, left = 46, right = 14, bottom = 24;
    const each = Math.max(1, Math.min(18, 420 / n)), height = n * each + bottom;
    const svg = svgIn(box, width, height, 'Receivers over time');
    const x = (t) => left + (width - left - right) * t / (way.seconds || 1), gap = each > 5 ? 1 : 0;
    const label = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096].find((s) => s * each >= 14) || n;
    for (const t of ticks(way.seconds, 6)) {
      draw(svg, 'line', {class: 'axis', x1: x(t), x2: x(t), y1: 0, y2: height - bottom});
      draw(svg, 'text', {x: x(t), y: height - 8, 'text-anchor': 'middle'}, seconds(t));
    }
    way.receivers.forEach((r, i) => {
      const group = draw(svg, 'g');
      draw(group, 'rect', {x: x(0), y: i * each, width: Math.max(0, x(r.sources) - x(0)), height: Math.max(0.8, each - gap), fill: LINES[0]});
      draw(group, 'rect', {x: x(r.sources), y: i * each, width: Math.max(0, x(r.end) - x(r.sources)), height: Math.max(0.8, each - gap), fill: LINES[1]});
      hinted(group, `${r.name}\nfrom trainers until ${seconds(r.sources)}\nall at ${seconds(r.end)}`);
      if (i % label === 0) draw(svg, 'text', {x: left - 6, y: i * each + Math.min(each, 14) / 2 + 4, 'text-anchor': 'end'}, String(i));
    });
  });
  legend(node, [[LINES[0], 'until the last byte from trainers'], [LINES[1], 'until the last byte from peers']]);
}

// ---- reads

function histogram(reads) {
  const node = section('reads', 'Reads by size', reads.note);
  figure(node, (box, width) => {
    const height = 180, left = 62, right = 10, top = 14, bottom = 26, n = reads.bins.length;
    const svg = svgIn(box, width, height, 'Reads by size');
    const most = Math.max(1, ...reads.bins.map((b) => b.bytes));
    const y = (v) => height - bottom - (height - top - bottom) * v / (most * 1.1), wide = (width - left - right) / Math.max(1, n);
    for (const t of ticks(most)) {
      draw(svg, 'line', {class: 'axis', x1: left, x2: width - right, y1: y(t), y2: y(t)});
      draw(svg, 'text', {x: left - 6, y: y(t) + 4, 'text-anchor': 'end'}, bytes(t));
    }
    reads.bins.forEach((bin, i) => {
      const x = left + i * wide;
      const bar = draw(svg, 'rect', {x: x + 2, y: y(bin.bytes), width: Math.max(1, wide - 4), height: Math.max(bin.bytes ? 1 : 0, y(0) - y(bin.bytes)), fill: 'var(--accent)', opacity: 0.85});
      hinted(bar, `from ${bytes(bin.from)}\n${count(bin.reads)} reads\n${bytes(bin.bytes)}`);
      if (wide > 30 || i % 2 === 0) draw(svg, 'text', {x: x + wide / 2, y: height - 9, 'text-anchor': 'middle'}, bin.label);
      if (wide > 56 && bin.reads) draw(svg, 'text', {x: x + wide / 2, y: y(bin.bytes) - 4, 'text-anchor': 'middle'}, count(bin.reads));
    });
  });
}

// ---- ways compared

function ways(list) {
  const node = section('ways', 'The same update, three ways', 'Time until the last receiver has everything; how long each side stands still for it.');
  const most = Math.max(...list.map((w) => w.seconds));
  figure(node, (box, width) => {
    const each = 44, left = 190, right = 170, svg = svgIn(box, width, list.length * each + 4, 'Times compared');
    list.forEach((way, i) => {
      const wide = (width - left - right) * way.seconds / (most || 1);
      draw(svg, 'text', {class: 'strong', x: left - 10, y: i * each + 24, 'text-anchor': 'end'}, way.title);
      draw(svg, 'rect', {x: left, y: i * each + 8, width: Math.max(1, wide), height: each - 18, rx: 3, fill: i === 0 ? 'var(--accent)' : 'var(--second)'});
      draw(svg, 'text', {class: 'strong', x: left + wide + 8, y: i * each + 24},
        seconds(way.seconds) + (i === 0 ? '' : `, ${Number((way.seconds / list[0].seconds).toPrecision(3))}\u00d7 longer`));
    });
  });
  const table = el(node, 'table', {id: 'stalls'});
  const head = el(table, 'tr');
  ['way', 'time', 'trainers stand still', 'receivers stand still (mean)', 'receivers (longest)', 'GPU time lost'].forEach((text, i) => el(head, 'th', i ? {class: 'number'} : {}, text));
  for (const way of list) {
    const line = el(table, 'tr', {'data-way': way.key, 'data-seconds': way.seconds});
    el(line, 'td', {}, way.title);
    for (const text of [seconds(way.seconds), way.trainer_note || seconds(way.trainer_stall), seconds(way.rollout_mean), seconds(way.seconds), way.gpu_note || seconds(way.gpu_seconds)]) {
      el(line, 'td', {class: 'number'}, text);
    }
  }
  for (const way of list) {
    const part = section('usage-' + way.key, way.title, way.text);
    usage(part, way, most);
  }
}

// ---- the page

function retheme(theme) {
  document.documentElement.dataset.theme = theme;
  for (const again of redraws) again();
}
document.title = data.title;
document.getElementById('title').textContent = data.title;
document.getElementById('subtitle').textContent = data.subtitle;
document.getElementById('footer').textContent = data.footer;
document.documentElement.dataset.theme = location.hash === '#dark' || location.hash === '#light' ? location.hash.slice(1)
  : matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
document.getElementById('theme').addEventListener('click', () => retheme(dark() ? 'light' : 'dark'));
if (data.tiles) tiles(data.tiles);
if (data.ways) ways(data.ways);
if (data.matrix) matrix(data.matrix);
if (data.loads) loads(data.loads);
if (data.tensors) tensors(data.tensors);
if (data.time) timeline(data.time);
if (data.reads) histogram(data.reads);
let wide = innerWidth;
addEventListener('resize', () => { if (innerWidth !== wide) { wide = innerWidth; for (const again of redraws) again(); } });
document.documentElement.dataset.drawn = 'yes';
})();
