// The data of the page, decoded; numbers and colours as the views show them.

for (const metric of page.metrics) {
  metric.distance = new Float32Array(bytes(metric.distance));
  metric.value = new Float64Array(bytes(metric.value));
  metric.plane.points = new Float32Array(bytes(metric.plane.points));
  metric.smallest = metric.distance.reduce((a, b) => Math.min(a, b));
  metric.largest = metric.distance.reduce((a, b) => Math.max(a, b));
  metric.rounding = 1e-10 * metric.value.reduce((a, b) => Math.max(Math.abs(a), Math.abs(b)), 0);
  metric.symbol = metric.on === "mdp" ? "V*" : "Vπ";
}

// Colours to begin with: by rank where linear ones would show many distances as one colour.
function firstScale(metric) {
  return metric.crowded ? "ranks" : "all";
}

// What is chosen: the views read it, `choose` in explore.js alone changes it.
const now = {
  metric: page.metrics[0],
  state: page.goals[0] ?? 0,
  near: 6,
  scale: firstScale(page.metrics[0]),
  scaleChosen: false,
  picture: page.cells ? "map" : "matrix",
  hot: null,
  hotFrom: null,
  nearest: [],
};

const between = (x, y, metric = now.metric) => metric.distance[x * page.states + y];
const valueGap = (x, y, metric = now.metric) => Math.abs(metric.value[x] - metric.value[y]);
const stateName = (x) => (page.names ? `${page.names[x]}` : `${x}`);

// What the certified error of distances, or the rounding of values, does not tell from 0 is 0.
const distanceText = (d, count = 4) => (Math.abs(d) <= now.metric.error ? "0" : digits(d, count));
// At most five characters, for the cells of a map.
function shortText(d) {
  const size = Math.abs(d);
  if (size <= now.metric.error || (size >= 0.01 && size < 100)) return distanceText(d, 2);
  return (size < 0.01 || size >= 1e4 ? d.toExponential(0) : d.toFixed(0)).replace("e+", "e").replace("-", "−");
}
const valueText = (v, count = 4) => (Math.abs(v) <= now.metric.rounding ? "0" : digits(v, count));
// Text whose Vπ has its π raised.
const raised = (text) => text.split("Vπ").flatMap((part, i) => (i ? ["V", made("sup", {}, "π"), part] : [part]));

// Viridis without its darkest end for distances, inferno for values: both rise evenly in lightness.
const RAMPS = {
  distance: "#482475 #423f85 #38598c #2e6f8e #25838e #1f988b #27ad81 #48c16e #77d153 #b2dd2d #ece51b".split(" "),
  value: "#420a68 #5f136e #7d1e6d #9a2865 #b63458 #d04545 #e55c30 #f47918 #fb9906 #fbbe23 #f4e156".split(" "),
};
const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const STOPS = Object.fromEntries(Object.entries(RAMPS).map(([name, ramp]) => [name, ramp.map(channels)]));

function colour(ramp, share) {
  const stops = STOPS[ramp];
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(place), stops.length - 2);
  return stops[low].map((channel, i) => Math.round(channel + (place - low) * (stops[low + 1][i] - channel)));
}
const css = (rgb) => `rgb(${rgb.join(" ")})`;

function inkOn(rgb) {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

// Where each distance lies on the ramp, 0 to 1, and what stands under it.
function distanceScale() {
  const row = now.metric.distance.subarray(now.state * page.states, (now.state + 1) * page.states);
  const sorted = Float32Array.from(row).sort();
  if (now.scale === "ranks") {
    const share = (d) => countBelow(sorted, d) / Math.max(sorted.length - 1, 1);
    return { share, ticks: QUARTERS.map((q) => sorted[Math.round(q * (sorted.length - 1))]) };
  }
  if (now.scale === "all") return evenScale(now.metric.smallest, now.metric.largest);
  return evenScale(sorted[0], sorted[sorted.length - 1]);
}

function countBelow(sorted, d) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < d) low = middle + 1;
    else high = middle;
  }
  return low;
}

function evenScale(low, high) {
  const share = (x) => (high > low ? (x - low) / (high - low) : 0);
  return { share, ticks: QUARTERS.map((q) => low + q * (high - low)) };
}

const valueScale = () => evenScale(Math.min(...now.metric.value), Math.max(...now.metric.value));

function drawLegend(place, ramp, title, ticks, written) {
  const bar = made("div", { className: "ramp" });
  bar.style.backgroundImage = `linear-gradient(to right, ${RAMPS[ramp].join(", ")})`;
  const marks = ticks.map((tick) => made("span", {}, written(tick, 3)));
  place.replaceChildren(
    made("p", { className: "legend-title" }, ...raised(title)),
    bar,
    made("div", { className: "ticks" }, ...marks),
  );
}

// The k states nearest to x, ties by number.
function nearest(x, k) {
  const others = [...Array(page.states).keys()].filter((y) => y !== x);
  return others.sort((a, b) => between(x, a) - between(x, b) || a - b).slice(0, k);
}
