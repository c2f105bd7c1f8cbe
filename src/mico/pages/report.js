// Which arms and environments are shown, and the charts of them.

for (const env of page.envs) {
  env.steps = new Float64Array(bytes(env.steps));
  for (const curve of Object.values(env.curves))
    for (const name of ["mean", "low", "high", "seeds"]) curve[name] = new Float32Array(bytes(curve[name]));
}

const SHOWN_AT_FIRST = 6;
const chosen = {
  arms: new Set(page.arms.map(({ name }) => name)),
  envs: new Set(page.envs.slice(0, SHOWN_AT_FIRST).map(({ name }) => name)),
};
const charts = new Map();

function show() {
  const shown = page.envs.filter(({ name }) => chosen.envs.has(name));
  for (const env of shown) if (!charts.has(env.name)) charts.set(env.name, new Chart(env));
  byId("charts").replaceChildren(...shown.map(({ name }) => charts.get(name).card));
  byId("charts").classList.toggle("single", shown.length === 1);
  for (const { name } of shown) charts.get(name).draw();
  byId("nothing").hidden = shown.length > 0 && chosen.arms.size > 0;
}

// Boxes to tick, and buttons for all and none where there are many.
function boxes(place, set, entries, marked) {
  const inputs = entries.map((name, index) => {
    const input = made("input", { type: "checkbox", value: name, checked: set.has(name) });
    input.addEventListener("change", () => {
      if (input.checked) set.add(name);
      else set.delete(name);
      show();
    });
    place.append(made("label", {}, input, made("span", {}, ...marked(index), name)));
    return input;
  });
  if (entries.length < 3) return;
  for (const [word, checked] of [["all", true], ["none", false]]) {
    const button = made("button", { type: "button", className: "every" }, word);
    button.ariaLabel = `${word} of: ${place.querySelector("legend").textContent}`;
    button.addEventListener("click", () => {
      for (const input of inputs) input.checked = checked;
      set.clear();
      if (checked) entries.forEach((name) => set.add(name));
      show();
    });
    place.append(button);
  }
}

function start() {
  const marks = (index) => [swatch(page.arms[index].colour, page.arms[index].dash)];
  boxes(byId("arms"), chosen.arms, page.arms.map(({ name }) => name), marks);
  boxes(byId("envs"), chosen.envs, page.envs.map(({ name }) => name), () => []);
  show();
  followTheme(() => {});
}

if (byId("charts") === null) followTheme(() => {}); // a page without curves: no run has two returns
else start();
