// The numbers beside the pictures: facts about the state and the metric, tables of distances.

function planeNote() {
  const { kind, kept, ranks } = now.metric.plane;
  const origin = {
    exact: [
      "The points are MICo's own embedding, in which squared distances are the reduced distance ΠU, exactly.",
      `Of it, the plane shows the two leading axes, which keep ${percent(kept)} of ΠU summed over all pairs.`,
      now.metric.name === "mico" ? "U adds half of both self-distances, which no points can show." : "",
    ],
    scaling: [
      "The points come from classical multidimensional scaling of this metric.",
      `The two leading axes keep ${percent(kept)} of the spread (eigenvalues; negative ones count as lost).`,
    ],
  };
  const order = `Distances in the plane and by the metric have a rank correlation of ${ranks?.toFixed(2)}.`;
  const axes = "Both axes have the same scale; value rises to the right on the whole.";
  return [...origin[kind], ranks === null ? "" : order, axes].filter((sentence) => sentence).join(" ");
}

const fact = (what, number) => made("div", {}, made("dt", {}, ...raised(what)), made("dd", {}, number));

function drawFacts(name) {
  const { metric } = now;
  const own = Array.from({ length: page.states }, (_, x) => between(x, x));
  byId("state-title").textContent = `State ${name}`;
  byId("state-facts").replaceChildren(
    fact(metric.on === "mdp" ? "Optimal value V*" : "Value Vπ", valueText(metric.value[now.state])),
    fact("Self-distance", distanceText(between(now.state, now.state))),
    fact("Farthest", distanceText(Math.max(...Array.from({ length: page.states }, (_, y) => between(now.state, y))))),
  );
  byId("metric-title").textContent = metric.name;
  byId("metric-facts").replaceChildren(
    fact("Certified error", digits(metric.error, 2)),
    fact(`Pairs with |Δ${metric.symbol}| > d`, percent(metric.broken)),
    fact(`Mean gap d − |Δ${metric.symbol}|`, distanceText(metric.gap)),
    fact("Largest distance", distanceText(metric.largest)),
    fact("Self-distances", [...new Set([Math.min(...own), Math.max(...own)].map((d) => distanceText(d)))].join(" to ")),
  );
  byId("metric-note").replaceChildren(...raised(metricNote()));
}

function metricNote() {
  const of = {
    mdp: "It is a metric of the MDP alone; V* is the value of the best policy.",
    policy: `It is a metric of the policy (${page.policy}); Vπ is that policy's value.`,
  };
  const bounds = now.metric.broken === 0 ? "bounds" : "does not bound";
  return [
    of[now.metric.on],
    `The metric ${bounds} differences of value for every pair here. The mean gap says how loosely, 0 being tight.`,
    "Both count all pairs of states, also a state with itself.",
  ].join(" ");
}

function line(state, first) {
  const d = between(now.state, state);
  const gap = valueGap(now.state, state);
  const sizes = Math.abs(d) + Math.abs(now.metric.value[state]) + Math.abs(now.metric.value[now.state]);
  const slack = now.metric.error + 1e-6 * sizes; // what single precision leaves open
  const button = made("button", { type: "button", title: "measure from this state" }, stateName(state));
  button.addEventListener("click", () => choose({ state }));
  button.addEventListener("pointerenter", () => hover(state));
  button.addEventListener("pointerleave", () => hover(null));
  const broken = gap > d + slack;
  const apart = made("span", { className: broken ? "broken" : "" }, valueText(gap), broken ? " > d" : "");
  const cells = [button, distanceText(d), apart, valueText(now.metric.value[state])];
  const row = made("tr", {}, ...[...first, ...cells].map((cell) => made("td", {}, cell)));
  row.dataset.state = state;
  return row;
}

function drawTables(name) {
  const { symbol } = now.metric;
  const near = now.nearest;
  const heads = (...titles) => made("tr", {}, ...titles.map((title) => made("th", { scope: "col" }, ...raised(title))));
  byId("nearest-caption").textContent = near.length ? `Nearest to state ${name}` : "There is no other state";
  byId("nearest").parentElement.tHead.replaceChildren(heads("#", "state", "distance", `|Δ${symbol}|`, symbol));
  byId("nearest").replaceChildren(...near.map((state, rank) => line(state, [`${rank + 1}`])));
  byId("everything-title").textContent = `All distances from state ${name}, as a table`;
  byId("every-caption").textContent = `Distances from state ${name} by ${now.metric.name}`;
  byId("every").parentElement.tHead.replaceChildren(heads("state", "distance", `|Δ${symbol}|`, symbol));
  byId("every").replaceChildren(
    ...(byId("everything").open ? [...Array(page.states).keys()].map((state) => line(state, [])) : []),
  );
}
