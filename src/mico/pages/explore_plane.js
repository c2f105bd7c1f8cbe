// The states as points of a plane, coloured by value; the same scale on both axes.

const plane = { element: byId("plane"), points: [], places: [], focused: null };
const MARGIN = 22; // pixels around the points
const REACH = 26; // pixels from a click to the point that it means

function buildPlane() {
  const svg = plane.element;
  plane.points = Array.from({ length: page.states }, (_, state) =>
    drawn("circle", { role: "option", tabindex: -1, "data-state": state }),
  );
  plane.links = drawn("g", { "aria-hidden": "true" });
  plane.marks = drawn("g", { "aria-hidden": "true" });
  svg.append(plane.links, ...plane.points, plane.marks);
  svg.addEventListener("click", (event) => {
    const state = pointAt(event);
    if (state !== null) choose({ state });
  });
  svg.addEventListener("pointermove", (event) => hover(pointAt(event)));
  svg.addEventListener("pointerleave", () => hover(null));
  const frame = svg.parentElement; // an SVG that itself listens to focus takes it
  frame.addEventListener("focusin", (event) => {
    plane.focused = Number(event.target.dataset.state);
    stopAtOnePoint();
    hover(plane.focused);
  });
  frame.addEventListener("focusout", () => hover(null));
  svg.addEventListener("keydown", planeKey);
  new ResizeObserver(() => drawPlane(valueScale())).observe(svg);
}

function pointAt(event) {
  const box = plane.element.getBoundingClientRect();
  const x = event.clientX - box.left;
  const y = event.clientY - box.top;
  let best = null;
  let reach = REACH;
  plane.places.forEach(([px, py], state) => {
    const away = Math.hypot(px - x, py - y);
    if (away < reach) [best, reach] = [state, away];
  });
  return best;
}

function planeKey(event) {
  const steps = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };
  if (event.key === "Enter" || event.key === " ") choose({ state: plane.focused });
  else if (steps[event.key]) {
    const [dx, dy] = steps[event.key];
    const [x, y] = plane.places[plane.focused];
    let best = null;
    let cost = Infinity;
    plane.places.forEach(([px, py], state) => {
      const along = (px - x) * dx + (py - y) * dy;
      const across = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (along > 0.5 && across <= 2 * along && along + 2 * across < cost) [best, cost] = [state, along + 2 * across];
    });
    if (best !== null) plane.points[best].focus();
  } else return;
  event.preventDefault();
}

function stopAtOnePoint() {
  const stop = plane.focused ?? now.state;
  plane.points.forEach((point, state) => point.setAttribute("tabindex", state === stop ? 0 : -1));
}

// Pixels of each point: one scale for both axes, the middle of the points in the middle.
function placed(points, width, height) {
  const axis = (at) => Array.from({ length: page.states }, (_, state) => points[2 * state + at]);
  const xs = axis(0);
  const ys = axis(1);
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const zoom = Math.min((width - 2 * MARGIN) / (right - left || 1e-30), (height - 2 * MARGIN) / (high - low || 1e-30));
  return xs.map((x, state) => [
    width / 2 + zoom * (x - (left + right) / 2),
    height / 2 - zoom * (ys[state] - (low + high) / 2),
  ]);
}

function drawPlane(scale) {
  const svg = plane.element;
  const width = svg.clientWidth;
  const height = svg.clientHeight;
  if (!width) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  plane.places = placed(now.metric.plane.points, width, height);
  const radius = Math.max(4, Math.min(9, 80 / Math.sqrt(page.states)));
  plane.points.forEach((point, state) => {
    const [x, y] = plane.places[state];
    point.setAttribute("cx", x);
    point.setAttribute("cy", y);
    point.setAttribute("r", radius);
    point.setAttribute("fill", css(colour("value", scale.share(now.metric.value[state]))));
    point.setAttribute("aria-selected", state === now.state);
    const value = valueText(now.metric.value[state]);
    const d = distanceText(between(now.state, state));
    point.setAttribute("aria-label", `state ${stateName(state)}, value ${value}, distance ${d}`);
  });
  stopAtOnePoint();
  markPlane();
}

function markPlane() {
  if (!plane.places.length) return;
  const ring = (state, kind, radius) =>
    drawn("circle", { class: `mark ${kind}`, cx: plane.places[state][0], cy: plane.places[state][1], r: radius });
  const [x, y] = plane.places[now.state];
  const near = now.nearest;
  plane.links.replaceChildren(
    ...near.map((state) => drawn("line", { x1: x, y1: y, x2: plane.places[state][0], y2: plane.places[state][1] })),
  );
  const marks = [...near.map((state) => ring(state, "near", 12)), ring(now.state, "chosen", 14)];
  if (now.hot !== null && now.hot !== now.state) marks.push(ring(now.hot, "hot", 15));
  if (plane.focused !== null) marks.push(ring(plane.focused, "focus", 18));
  plane.marks.replaceChildren(...marks);
}
