// The map: a grid of cells, coloured by their distance from the chosen state.

const map = { element: byId("map"), cells: new Map(), focused: null };
const NUMBERS_FIT = 33; // pixels of a cell

function buildMap() {
  if (!page.cells) return;
  map.element.style.gridTemplateColumns = `repeat(${page.cells[0].length}, minmax(0, 1fr))`;
  page.cells.forEach((line, row) => {
    const cells = line.map((state, column) => {
      if (state < 0) return made("div", { className: "wall", role: "gridcell", ariaLabel: "wall" });
      const cell = made("div", { className: "cell", role: "gridcell", tabIndex: -1 }, made("span"));
      cell.dataset.state = state;
      cell.classList.toggle("goal", page.goals.includes(state));
      map.cells.set(state, { cell, row, column });
      return cell;
    });
    map.element.append(made("div", { role: "row" }, ...cells));
  });
  const stateAt = (event) => {
    const cell = event.target.closest(".cell");
    return cell ? Number(cell.dataset.state) : null;
  };
  map.element.addEventListener("click", (event) => {
    if (stateAt(event) !== null) choose({ state: stateAt(event) });
  });
  map.element.addEventListener("pointerover", (event) => hover(stateAt(event)));
  map.element.addEventListener("pointerleave", () => hover(null));
  map.element.addEventListener("focusin", (event) => {
    map.focused = stateAt(event);
    keepOneStop();
    hover(map.focused);
  });
  map.element.addEventListener("focusout", () => hover(null));
  map.element.addEventListener("keydown", mapKey);
  new ResizeObserver(fitNumbers).observe(map.element);
}

function fitNumbers() {
  map.element.classList.toggle("tight", map.element.clientWidth / page.cells[0].length < NUMBERS_FIT);
}

// Tab stops at one cell: the one last focused, else the chosen one.
function keepOneStop() {
  const stop = [map.focused, now.state, ...map.cells.keys()].find((state) => map.cells.has(state));
  for (const [state, { cell }] of map.cells) cell.tabIndex = state === stop ? 0 : -1;
}

function mapKey(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key === "Enter" || event.key === " ") choose({ state: map.focused });
  else if (steps[event.key]) {
    const [down, right] = steps[event.key];
    let { row, column } = map.cells.get(map.focused);
    do {
      row += down;
      column += right;
    } while ((page.cells[row]?.[column] ?? null) === -1); // over walls
    map.cells.get(page.cells[row]?.[column])?.cell.focus();
  } else return;
  event.preventDefault();
}

function drawMap(scale) {
  for (const [state, { cell, row, column }] of map.cells) {
    const d = between(now.state, state);
    const shade = colour("distance", scale.share(d));
    cell.style.backgroundColor = css(shade);
    cell.style.color = inkOn(shade);
    cell.firstChild.textContent = shortText(d);
    cell.classList.toggle("chosen", state === now.state);
    cell.classList.toggle("near", now.nearest.includes(state));
    cell.ariaSelected = `${state === now.state}`;
    const kind = page.goals.includes(state) ? ", goal" : "";
    const place = `row ${row + 1}, column ${column + 1}`;
    cell.ariaLabel = `state ${stateName(state)}${kind}, ${place}, distance ${distanceText(d)}`;
  }
  map.element.ariaLabel = `Map: distances from state ${stateName(now.state)}`;
  keepOneStop();
}

function warmMap() {
  for (const [state, { cell }] of map.cells) cell.classList.toggle("hot", state === now.hot);
}
