// Style sheet and script of plots. The script reads the values under the pointer off the drawn
// path, so that a page contains every number once.

#include "core/console/page/plot.h"

namespace xrun {

const std::string_view kPlotStyle = R"css(
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(24rem, 1fr)); gap: 1rem; }
@media (max-width: 28rem) { .plots { grid-template-columns: 1fr; } }
figure.plot { margin: 0; padding: .5rem .7rem .1rem; background: var(--panel); border-radius: 6px; }
figure.plot.large { grid-column: 1 / -1; }
figure.plot svg { width: 100%; display: block; cursor: crosshair; overflow: visible; }
figure.plot output { display: block; min-height: 1.4em; font-size: .8em; overflow-wrap: anywhere; }
.axes path { stroke: var(--edge); stroke-opacity: .35; fill: none; stroke-width: .7; }
.axes path.base { stroke-opacity: 1; }
.axes text { fill: var(--dim); font-size: 11px; }
.axes text.y { text-anchor: end; } .axes text.x { text-anchor: middle; }
.line path { fill: none; stroke: var(--c); stroke-width: 1.6; vector-effect: non-scaling-stroke;
  stroke-linejoin: round; }
.line path.marks { stroke-width: 5; stroke-linecap: round; }
.line.dashed path.raw, .line.dashed path.smooth { stroke-dasharray: 5 3; }
.line path.broken { stroke: var(--bad); stroke-width: 2; }
.line path.bars { fill: var(--c); fill-opacity: .25; }
.line path.smooth { display: none; }
main:not([data-smooth="0"]) .line:not(.sparse) path.raw { stroke-opacity: .3; stroke-width: .8; }
main[data-smooth="1"] .line path.s1, main[data-smooth="2"] .line path.s2,
main[data-smooth="3"] .line path.s3, main[data-smooth="4"] .line path.s4 { display: inline; }
.legend span { margin-left: .7em; font-size: .86em; white-space: nowrap; }
.legend span::before { content: ""; display: inline-block; width: 1.2em; margin-right: .35em;
  vertical-align: .25em; border-top: 3px solid var(--c); }
.legend span.dashed::before { border-top-style: dashed; }
.cursor { stroke: var(--dim); stroke-width: 1; vector-effect: non-scaling-stroke; }
.hidden-group { display: none !important; }
)css";

const std::string_view kPlotScript = R"js('use strict';
const chosen = document.querySelector('main');
const slider = document.getElementById('smooth');
const show = () => {
  chosen.dataset.smooth = slider.value;
  slider.setAttribute('aria-valuetext', slider.value === '0' ? 'none' : 'level ' + slider.value);
};
if (slider) slider.addEventListener('input', show);

for (const box of document.querySelectorAll('input[data-group]')) {
  box.addEventListener('change', () => {
    for (const part of document.getElementsByClassName(box.dataset.group)) {
      part.classList.toggle('hidden-group', !box.checked);
    }
  });
}

// Returns the points of a path in its units: "M x y" is absolute, the numbers after "l" are relative.
function pointsOf(path) {
  if (path.points) return path.points;
  const points = [];
  for (const piece of path.getAttribute('d').split('M').slice(1)) {
    const [from, rest] = piece.split('l');
    let [x, y] = from.trim().split(' ').map(Number);
    points.push([x, y]);
    const steps = ((rest || '').match(/-?\d+/g) || []).map(Number);
    for (let i = 0; i + 1 < steps.length; i += 2) {
      x += steps[i];
      y += steps[i + 1];
      points.push([x, y]);
    }
  }
  return path.points = points;
}

function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle; else high = middle;
  }
  return Math.abs(points[low][0] - x) < Math.abs(points[high][0] - x) ? points[low] : points[high];
}

const scaled = (share, low, high, log) =>
  log ? Math.pow(10, Math.log10(low) + share * (Math.log10(high) - Math.log10(low)))
      : low + share * (high - low);

for (const figure of document.querySelectorAll('figure.plot')) {
  const svg = figure.querySelector('svg');
  const out = figure.querySelector('output');
  if (!svg) continue;
  svg.addEventListener('click', () => figure.classList.toggle('large'));
  const [width, height] = [1600, 760];
  const [xLow, xHigh] = svg.dataset.x.split(' ').map(Number);
  const [yLow, yHigh, log] = svg.dataset.y.split(' ');
  const area = svg.lastElementChild;
  const cursor = document.createElementNS(svg.namespaceURI, 'path');
  cursor.setAttribute('class', 'cursor');
  area.append(cursor);
  svg.addEventListener('pointermove', (event) => {
    const at = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(area.getScreenCTM().inverse());
    if (at.x < 0 || at.x > width) return;
    const texts = [];
    for (const line of area.querySelectorAll('.line[data-name]:not(.hidden-group)')) {
      const level = chosen.dataset.smooth;
      const path = line.querySelector('.s' + level) || line.querySelector('.raw');
      const points = pointsOf(path);
      if (!points.length) continue;
      const y = scaled(1 - nearest(points, at.x)[1] / height, Number(yLow), Number(yHigh), log);
      texts.push(line.dataset.name + ' ' + Number(y.toPrecision(3)));
    }
    cursor.setAttribute('d', 'M' + at.x + ' 0v' + height);
    if (!texts.length) return;
    out.textContent = 'step ' + Math.round(scaled(at.x / width, xLow, xHigh)) + ': ' +
        texts.join(', ');
  });
  svg.addEventListener('pointerleave', () => {
    cursor.setAttribute('d', '');
    out.textContent = '\u00a0';
  });
}
)js";

}  // namespace xrun
