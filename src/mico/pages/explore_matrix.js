// The matrix of all distances on a canvas: a row is chosen, a cursor moves over cells.

const matrix = { element: byId("matrix"), image: document.createElement("canvas"), row: now.state, column: now.state };
const CELL_TEXT = 40; // pixels of a cell that its number needs

function buildMatrix() {
  const canvas = matrix.element;
  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    const index = (offset, size) => Math.min(page.states - 1, Math.max(0, Math.floor((offset / size) * page.states)));
    return [index(event.clientY - box.top, box.height), index(event.clientX - box.left, box.width)];
  };
  canvas.addEventListener("click", (event) => {
    [matrix.row, matrix.column] = spot(event);
    choose({ state: matrix.row });
  });
  canvas.addEventListener("pointermove", (event) => {
    [matrix.row, matrix.column] = spot(event);
    hover(matrix.column, matrix.row);
  });
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("focus", () => hover(matrix.column, matrix.row));
  canvas.addEventListener("blur", () => hover(null));
  canvas.addEventListener("keydown", matrixKey);
  new ResizeObserver(drawMatrix).observe(canvas);
}

function matrixKey(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key === "Enter" || event.key === " ") choose({ state: matrix.row });
  else if (steps[event.key]) {
    const within = (index) => Math.min(page.states - 1, Math.max(0, index));
    matrix.row = within(matrix.row + steps[event.key][0]);
    matrix.column = within(matrix.column + steps[event.key][1]);
    hover(matrix.column, matrix.row);
    const d = distanceText(between(matrix.row, matrix.column));
    byId("said").textContent = `distance of ${stateName(matrix.row)} and ${stateName(matrix.column)}: ${d}`;
  } else return;
  event.preventDefault();
}

// One pixel a pair; drawMatrix enlarges it.
function paintMatrix(scale) {
  const n = page.states;
  matrix.image.width = matrix.image.height = n;
  const pixels = new ImageData(n, n);
  const shades = Array.from({ length: 256 }, (_, i) => [...colour("distance", i / 255), 255]);
  const level = (share) => Math.round(255 * Math.min(Math.max(share, 0), 1));
  now.metric.distance.forEach((d, i) => pixels.data.set(shades[level(scale.share(d))], 4 * i));
  matrix.image.getContext("2d").putImageData(pixels, 0, 0);
  matrix.scale = scale;
  matrix.element.ariaLabel = `Matrix of distances, row ${stateName(now.state)} chosen`;
  drawMatrix();
}

function drawMatrix() {
  const canvas = matrix.element;
  const side = canvas.clientWidth;
  const n = page.states;
  if (!side || !matrix.scale) return;
  const ratio = window.devicePixelRatio || 1;
  const cell = side / n;
  canvas.width = canvas.height = Math.round(side * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(matrix.image, 0, 0, side, side);
  if (cell >= CELL_TEXT) writeNumbers(pen, cell);
  const frame = (x, y, width, height, stroke, thick) => {
    for (const [tint, line] of [
      [shade("--card"), thick + 2],
      [stroke, thick],
    ]) {
      pen.strokeStyle = tint;
      pen.lineWidth = line;
      pen.strokeRect(x, y, width, height);
    }
  };
  const edge = 2;
  const clamp = (start, size) => [Math.max(start, edge), Math.min(start + size, side - edge)];
  const [top, bottom] = clamp(now.state * cell, cell);
  frame(edge, top, side - 2 * edge, Math.max(bottom - top, 2), shade("--accent"), 2);
  if (now.hot !== null) {
    const [y0, y1] = clamp((now.hotFrom ?? now.state) * cell, cell);
    const [x0, x1] = clamp(now.hot * cell, cell);
    frame(x0, y0, Math.max(x1 - x0, 3), Math.max(y1 - y0, 3), shade("--ink"), 2);
  }
}

function writeNumbers(pen, cell) {
  pen.font = `${Math.min(15, cell / 3.6)}px system-ui, sans-serif`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let x = 0; x < page.states; x++) {
    for (let y = 0; y < page.states; y++) {
      const d = between(x, y);
      pen.fillStyle = inkOn(colour("distance", matrix.scale.share(d)));
      pen.fillText(distanceText(d, 3), (y + 0.5) * cell, (x + 0.5) * cell);
    }
  }
}
