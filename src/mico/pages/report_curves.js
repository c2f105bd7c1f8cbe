// One chart: the mean of every chosen arm in one environment, with its interval, and the values at one step.

const PAD = { left: 52, right: 24, top: 10, bottom: 30 }; // pixels around the curves
const NEAR = 3; // pixels between dots: nearer ones become rings around the first
const DASH = 7; // pixels of a dash of a line that lies on others
const whole = (number) => Math.round(number).toLocaleString("en");

// Round numbers, some `count` of them, from low to high.
function ticksOf(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => (first + i) * step);
}

// All ticks of an axis in the unit of the largest.
function tickText(x, largest) {
  const [size, unit] = largest >= 1e6 ? [1e6, "M"] : largest >= 1e4 ? [1e3, "k"] : [1, ""];
  return x === 0 ? "0" : `${Number((x / size).toPrecision(4)).toLocaleString("en")}${unit}`.replace("-", "−");
}

const largest = (numbers) => Math.max(...numbers.map(Math.abs));

class Chart {
  constructor(env) {
    this.env = env;
    this.at = env.steps.length - 1;
    this.svg = drawn("svg", { "aria-hidden": "true" });
    this.frame = made("div", { className: "chart", tabIndex: 0, role: "slider" }, this.svg);
    this.frame.ariaLabel = `Step in ${env.name}`;
    this.caption = made("p", { className: "help" });
    this.values = made("tbody");
    const heads = ["arm", "mean", `${page.level} interval`, "seeds"].map((head) => made("th", { scope: "col" }, head));
    const readout = made("table", {}, made("thead", {}, made("tr", {}, ...heads)), this.values);
    this.card = made("section", { className: "card curve" }, made("h3", {}, env.name), this.frame, this.caption);
    this.card.append(made("div", { className: "scroll" }, readout));
    this.card.dataset.env = env.name;
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  listen() {
    const point = (event) => {
      const x = event.clientX - this.frame.getBoundingClientRect().left;
      const step = ((x - PAD.left) / this.width) * this.last;
      const far = Array.from(this.env.steps, (at) => Math.abs(at - step));
      this.move(far.indexOf(Math.min(...far)));
    };
    this.frame.addEventListener("pointermove", point);
    this.frame.addEventListener("pointerdown", point);
    this.frame.addEventListener("keydown", (event) => {
      const end = this.env.steps.length - 1;
      const leap = Math.max(1, Math.round(end / 10));
      const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -leap, PageUp: leap };
      const place = { Home: 0, End: end }[event.key] ?? this.at + (moves[event.key] ?? NaN);
      if (Number.isNaN(place)) return;
      event.preventDefault();
      this.move(Math.min(Math.max(place, 0), end));
    });
  }

  arms() {
    return page.arms.flatMap((arm, index) => {
      const curve = this.env.curves[index];
      return curve && chosen.arms.has(arm.name) ? [{ ...arm, ...curve }] : [];
    });
  }

  move(at) {
    this.at = at;
    this.mark();
    this.read();
  }

  draw() {
    const width = this.frame.clientWidth;
    const height = this.frame.clientHeight;
    if (!width) return;
    const arms = this.arms();
    const { steps } = this.env;
    this.width = width - PAD.left - PAD.right;
    this.last = steps[steps.length - 1] || 1;
    const seen = arms.flatMap(({ mean, low, high }) => [...mean, ...low, ...high]).filter(Number.isFinite);
    let [bottom, top] = seen.length ? [Math.min(...seen), Math.max(...seen)] : [0, 1];
    if (top === bottom) [bottom, top] = [bottom - 0.5, top + 0.5];
    const room = 0.04 * (top - bottom);
    const tall = height - PAD.top - PAD.bottom;
    this.x = (step) => PAD.left + (step / this.last) * this.width;
    this.y = (value) => PAD.top + ((top + room - value) / (top - bottom + 2 * room)) * tall;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.marks = drawn("g", {});
    this.svg.replaceChildren(
      ...ticksOf(bottom - room, top + room, 4).flatMap((tick, _, ticks) => this.rule(tick, width, largest(ticks))),
      ...ticksOf(0, this.last, Math.max(2, Math.floor(width / 110))).map((tick) => this.foot(tick, height)),
      ...arms.map((arm) => drawn("path", { d: this.band(arm), fill: arm.colour, "fill-opacity": 0.18 })),
      ...arms.map((arm) => drawn("path", { d: this.line(arm.mean), stroke: arm.colour, class: "mean", ...dashes(arm) })),
      this.marks,
    );
    this.mark();
    this.read();
  }

  rule(tick, width, most) {
    const y = this.y(tick);
    const text = drawn("text", { x: PAD.left - 8, y: y + 4, "text-anchor": "end" });
    text.textContent = tickText(tick, most);
    return [drawn("line", { x1: PAD.left, x2: width - PAD.right, y1: y, y2: y, class: "grid" }), text];
  }

  foot(tick, height) {
    const text = drawn("text", { x: this.x(tick), y: height - 10, "text-anchor": "middle" });
    text.textContent = tickText(tick, this.last);
    return text;
  }

  // Where a number is missing, the line begins anew.
  line(values) {
    let pen = "M";
    return Array.from(values, (value, i) => {
      if (!Number.isFinite(value)) pen = "M";
      else {
        const part = `${pen}${this.x(this.env.steps[i]).toFixed(1)} ${this.y(value).toFixed(1)}`;
        pen = "L";
        return part;
      }
      return "";
    }).join("");
  }

  band({ low, high }) {
    const known = [...this.env.steps.keys()].filter((i) => Number.isFinite(low[i]) && Number.isFinite(high[i]));
    const groups = known.reduce((parts, i) => {
      if (parts.length && parts.at(-1).at(-1) === i - 1) parts.at(-1).push(i);
      else parts.push([i]);
      return parts;
    }, []);
    const spot = (i, value) => `${this.x(this.env.steps[i]).toFixed(1)} ${this.y(value).toFixed(1)}`;
    return groups
      .map((part) => [...part.map((i) => spot(i, high[i])), ...part.reverse().map((i) => spot(i, low[i]))])
      .map((spots) => `M${spots.join("L")}Z`)
      .join("");
  }

  mark() {
    if (!this.marks) return;
    const x = this.x(this.env.steps[this.at]);
    const bottom = this.frame.clientHeight - PAD.bottom;
    const known = this.arms().filter(({ mean }) => Number.isFinite(mean[this.at]));
    const heights = known.map(({ mean }) => this.y(mean[this.at]));
    this.marks.replaceChildren(
      drawn("line", { x1: x, x2: x, y1: PAD.top, y2: bottom, class: "now" }),
      ...known.map(({ colour }, i) => {
        const beneath = heights.slice(0, i).filter((y) => Math.abs(y - heights[i]) < NEAR).length;
        const look = beneath ? { color: colour, class: "ring" } : { fill: colour };
        return drawn("circle", { cx: x, cy: heights[i], r: 4 + 3.5 * beneath, ...look });
      }),
    );
  }

  read() {
    const step = this.env.steps[this.at];
    const arms = this.arms();
    this.caption.textContent = `At step ${whole(step)}`;
    this.values.replaceChildren(...arms.map((arm) => this.row(arm)));
    const spoken = arms.map((arm) => `${arm.name} ${written(arm.mean[this.at])}`).join(", ");
    Object.assign(this.frame, { ariaValueMin: "0", ariaValueMax: `${this.last}`, ariaValueNow: `${step}` });
    this.frame.ariaValueText = `step ${whole(step)}: ${spoken || "no arm is chosen"}`;
  }

  row({ name, colour, dash, mean, low, high, seeds }) {
    const ends = Number.isFinite(low[this.at]) ? `${written(low[this.at])} … ${written(high[this.at])}` : "–";
    const cells = [written(mean[this.at]), ends, `${seeds[this.at]}`].map((text) => made("td", {}, text));
    const row = made("tr", {}, made("th", { scope: "row" }, swatch(colour, dash), name), ...cells);
    row.dataset.arm = name;
    return row;
  }
}

// Of lines that lie on one another each has dashes at its own place, and the first is seen between them.
function dashes({ dash, overlay }) {
  if (!overlay) return { "stroke-dasharray": dash };
  const [place, count] = overlay;
  return { "stroke-dasharray": `${DASH} ${DASH * (count - 1)}`, "stroke-dashoffset": DASH * (count - place) };
}

const written = (number) => (Number.isFinite(number) ? digits(number) : "–");

function swatch(colour, dash) {
  const line = drawn("svg", { class: "swatch", viewBox: "0 0 22 8", "aria-hidden": "true" });
  line.append(drawn("line", { x1: 1, x2: 21, y1: 4, y2: 4, stroke: colour, "stroke-width": 3, "stroke-dasharray": dash }));
  return line;
}
