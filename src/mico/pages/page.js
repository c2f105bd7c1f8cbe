"use strict";

// What every page has: its data, elements, numbers in print, a theme.

const page = JSON.parse(document.getElementById("data").textContent);
const bytes = (packed) => Uint8Array.from(atob(packed), (byte) => byte.charCodeAt(0)).buffer;
const byId = (id) => document.getElementById(id);
const percent = (share) => `${(100 * share).toFixed(1)}%`;
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function digits(number, count = 4) {
  const size = Math.abs(number);
  let text = number.toPrecision(count);
  if (size === 0) text = "0";
  else if (size < 1e-4 || size >= 1e6) text = number.toExponential(count - 1);
  else if (text.includes("e")) text = number.toFixed(0);
  return text.replace("e+", "e").replaceAll("-", "−");
}

// A colour of the style sheet as the theme has it now.
function shade(name) {
  const probe = byId("said");
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

function made(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function drawn(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

// The button for the theme, and what must be painted again when it changes.
function followTheme(paint) {
  const show = () => {
    byId("theme").ariaPressed = `${isDark()}`;
    paint();
  };
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
