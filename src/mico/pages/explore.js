// What is chosen, and all that follows from it.

function choose(change) {
  Object.assign(now, change);
  if ("scale" in change) now.scaleChosen = true;
  if ("metric" in change && !now.scaleChosen) now.scale = firstScale(now.metric);
  if ("state" in change) matrix.row = matrix.column = now.state;
  draw();
  if ("state" in change || "metric" in change)
    byId("said").textContent = `${now.metric.name} from state ${stateName(now.state)}`;
}

// Point at a state in all views; `from` is another origin than the chosen state (a row of the matrix).
function hover(state, from = null) {
  if (state === now.hot && from === now.hotFrom) return;
  now.hot = state;
  now.hotFrom = from;
  warmMap();
  drawMatrix();
  markPlane();
  readOut();
}

function readOut() {
  const x = now.hotFrom ?? now.state;
  const y = now.hot ?? now.state;
  const { symbol } = now.metric;
  const d = made("b", {}, `d(${stateName(x)}, ${stateName(y)}) = ${distanceText(between(x, y))}`);
  byId("distance-readout").replaceChildren(
    d,
    ...raised(x === y ? ", a self-distance" : `, |Δ${symbol}| = ${valueText(valueGap(x, y))}`),
  );
  const value = made("b", {}, ...raised(`${symbol}(${stateName(y)}) = ${valueText(now.metric.value[y])}`));
  const twins = plane.places.filter(
    ([px, py]) => Math.hypot(px - plane.places[y][0], py - plane.places[y][1]) < 0.5,
  ).length;
  byId("value-readout").replaceChildren(value, twins > 1 ? `; ${twins} states at this spot` : "");
}

function draw() {
  const scale = distanceScale();
  const values = valueScale();
  const name = stateName(now.state);
  const { metric } = now;
  now.nearest = nearest(now.state, now.near);
  byId("summary").textContent = metric.summary;
  byId("state").value = now.state;
  byId("scale").value = now.scale;
  byId("from-title").textContent =
    now.picture === "map" ? `Distances from state ${name}` : `All distances; row ${name} is chosen`;
  byId("map").hidden = byId("map-help").hidden = now.picture !== "map";
  byId("matrix-frame").hidden = byId("matrix-help").hidden = now.picture === "map";
  drawMap(scale);
  if (now.picture === "matrix") paintMatrix(scale);
  drawPlane(values);
  const how = {
    all: "linear colours, one scale for all states",
    state: "linear colours, from this state",
    ranks: "colours by rank, from this state",
  };
  drawLegend(byId("distance-legend"), "distance", `distance d, ${how[now.scale]}`, scale.ticks, distanceText);
  const whose = metric.on === "mdp" ? "optimal value V*" : "value Vπ of the policy";
  drawLegend(byId("value-legend"), "value", whose, values.ticks, valueText);
  byId("plane-kept").textContent =
    `two axes keep ${percent(metric.plane.kept)} of ${metric.plane.kind === "exact" ? "ΠU" : "the spread"}`;
  byId("plane-note").textContent = planeNote();
  drawFacts(name);
  drawTables(name);
  readOut();
}

function radios(place, name, entries, initial, chosen) {
  for (const entry of entries) {
    const input = made("input", { type: "radio", name, value: entry, checked: entry === initial });
    input.addEventListener("change", () => chosen(entry));
    place.append(made("label", {}, input, made("span", {}, entry)));
  }
}

function start() {
  const more = Object.entries(page.facts).map(([key, value]) => `${key} ${value}`);
  byId("about").textContent = [
    counted(page.states, "state"),
    counted(page.actions, "action"),
    `discount ${page.discount}`,
    `policy ${page.policy}`,
    ...more,
  ].join(" · ");
  const byName = Object.fromEntries(page.metrics.map((metric) => [metric.name, metric]));
  radios(byId("metrics"), "metric", Object.keys(byName), now.metric.name, (name) => choose({ metric: byName[name] }));
  radios(byId("picture"), "picture", ["map", "matrix"], now.picture, (picture) => choose({ picture }));
  byId("picture").hidden = !page.cells;
  byId("state").append(
    ...Array.from({ length: page.states }, (_, state) =>
      made("option", { value: state }, stateName(state) + (page.goals.includes(state) ? " (goal)" : "")),
    ),
  );
  byId("state").addEventListener("change", (event) => choose({ state: Number(event.target.value) }));
  byId("scale").addEventListener("change", (event) => choose({ scale: event.target.value }));
  const most = Math.max(1, page.states - 1);
  now.near = Math.min(now.near, most);
  Object.assign(byId("near"), { value: now.near, max: most });
  byId("near").addEventListener("input", (event) => {
    if (event.target.validity.valid && event.target.value) choose({ near: Number(event.target.value) });
  });
  byId("everything").addEventListener("toggle", draw);
  byId("left-out").textContent = `Left out: ${page.leftOut}.`;
  byId("left-out").hidden = page.leftOut === null;
  buildMap();
  buildMatrix();
  buildPlane();
  draw();
  followTheme(drawMatrix);
}

start();
