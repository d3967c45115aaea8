"""Script of report pages that saves a figure as SVG, PNG or CSV, and a table as CSV.

A page contains this script and no other: its content security policy names the hash of the text, so that a browser
executes nothing else. The script reads the page and offers files to save; it sends and fetches nothing.
"""

from __future__ import annotations

import base64
import hashlib

SCRIPT = r"""
"use strict";
const LOOK = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "opacity", "text-anchor", "font-family", "font-size", "font-weight"];
const NS = "http://www.w3.org/2000/svg";
const offer = (blob, name) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob); link.download = name; link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
};
const named = (words, end) => (words.trim().toLowerCase().replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-+|-+$/g, "")
  || "figure").slice(0, 80) + end;
const cell = (value) => /[",\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : value;
const line = (row) => row.map((one) => cell(String(one))).join(",") + "\n";
const sheet = (rows, name) => offer(new Blob(rows.map(line), {type: "text/csv"}), name);
const copied = (from) => {
  const to = from.cloneNode(true), inner = [...from.querySelectorAll("*")];
  [...to.querySelectorAll("*")].forEach((one, k) => {
    if (one.localName === "image") return;
    const look = getComputedStyle(inner[k]);
    one.setAttribute("style", LOOK.map((name) => name + ":" + look.getPropertyValue(name)).join(";"));
  });
  to.removeAttribute("data-curves");
  return to;
};
const text = (words, x, y, size, colour, weight) => {
  const one = document.createElementNS(NS, "text");
  one.textContent = words; one.setAttribute("x", x); one.setAttribute("y", y);
  one.setAttribute("style", `fill:${colour};font:${weight} ${size}px system-ui,sans-serif`);
  return one;
};
const drawing = (figure) => {
  const page = getComputedStyle(document.body), plots = [...figure.querySelectorAll("svg")].filter(
    (one) => !one.parentElement.closest("svg"));
  const wide = Math.max(...plots.map((one) => one.viewBox.baseVal.width));
  const all = document.createElementNS(NS, "svg"), back = document.createElementNS(NS, "rect");
  back.setAttribute("width", "100%"); back.setAttribute("height", "100%");
  back.setAttribute("fill", getComputedStyle(figure).backgroundColor); all.append(back);
  const title = figure.querySelector("b"); let y = 8;
  if (title) { all.append(text(title.textContent, 8, 22, 14, page.color, 600)); y = 32; }
  for (const one of plots) {
    const plot = copied(one), box = one.viewBox.baseVal;
    plot.setAttribute("y", y); plot.setAttribute("width", box.width); plot.setAttribute("height", box.height);
    all.append(plot); y += box.height + 4;
  }
  for (const key of figure.querySelectorAll(".key")) {
    let x = 10; y += 16;
    for (const entry of key.children) {
      const mark = document.createElementNS(NS, "rect"), long = 26 + 6.6 * entry.textContent.length;
      if (x > 10 && x + long > wide) { x = 10; y += 18; }
      for (const [name, value] of [["x", x], ["y", y - 9], ["width", 10], ["height", 10], ["rx", 2]])
        mark.setAttribute(name, value);
      mark.setAttribute("fill", getComputedStyle(entry.firstElementChild).getPropertyValue("--k"));
      if (mark.getAttribute("fill").includes("var(")) {
        const name = mark.getAttribute("fill").match(/--\w+/)[0];
        mark.setAttribute("fill", getComputedStyle(document.documentElement).getPropertyValue(name).trim());
      }
      all.append(mark, text(entry.textContent, x + 15, y, 12, page.color, 400)); x += long;
    }
  }
  all.setAttribute("xmlns", NS); all.setAttribute("viewBox", `0 0 ${wide} ${y + 10}`);
  all.setAttribute("width", wide); all.setAttribute("height", y + 10);
  return all;
};
const canvas = (wide, tall) => {
  const one = document.createElement("canvas"); one.width = wide; one.height = tall; return one;
};
const pngOfDrawing = (figure, name) => {
  const all = drawing(figure), picture = new Image();
  picture.onload = () => {
    const on = canvas(2 * picture.width, 2 * picture.height);
    on.getContext("2d").drawImage(picture, 0, 0, on.width, on.height);
    on.toBlob((blob) => offer(blob, name));
  };
  picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(all));
};
const pngOfPictures = (figure, name) => {
  const all = [...figure.querySelectorAll("img")], wide = Math.max(...all.map((one) => one.naturalWidth));
  const rows = [[]]; let x = 0;
  for (const one of all) {
    if (x && x + one.naturalWidth > Math.max(wide, 1320)) { rows.push([]); x = 0; }
    rows.at(-1).push([one, x]); x += one.naturalWidth + 8;
  }
  const tall = rows.map((row) => Math.max(...row.map(([one]) => one.naturalHeight)));
  const on = canvas(Math.max(...rows.flat().map(([one, at]) => at + one.naturalWidth)),
    tall.reduce((sum, one) => sum + one + 8, -8));
  let y = 0;
  rows.forEach((row, k) => {
    for (const [one, at] of row) on.getContext("2d").drawImage(one, at, y);
    y += tall[k] + 8;
  });
  on.toBlob((blob) => offer(blob, name));
};
const rowsOfCurves = (figure) => {
  const rows = [["chart", "curve", "x", "y", "low", "high"]];
  for (const plot of figure.querySelectorAll("[data-curves]"))
    for (const [name, x, y, low, high] of JSON.parse(plot.dataset.curves))
      x.forEach((value, k) => rows.push([plot.getAttribute("aria-label"), name, value, y[k], (low || y)[k],
        (high || y)[k]]));
  return rows;
};
const buttons = (beside, where, entries) => {
  const bar = document.createElement("div"); bar.className = "save";
  for (const [word, action, what] of entries) {
    const one = document.createElement("button");
    one.type = "button"; one.textContent = word; one.title = `Save ${what} as ${word}`;
    one.onclick = action; bar.append(one);
  }
  beside.insertAdjacentElement(where, bar);
};
for (const figure of document.querySelectorAll("figure")) {
  const words = figure.querySelector("b") || figure.closest("section")?.querySelector("h2")
    || document.querySelector("h1");
  const plots = figure.querySelector("svg"), entries = [];
  const name = (end) => named(words.textContent, end);
  if (plots) entries.push(["SVG", () => offer(new Blob([new XMLSerializer().serializeToString(drawing(figure))],
    {type: "image/svg+xml"}), name(".svg")), "this figure"]);
  if (plots) entries.push(["PNG", () => pngOfDrawing(figure, name(".png")), "this figure"]);
  else if (figure.querySelector("img"))
    entries.push(["PNG", () => pngOfPictures(figure, name(".png")), "this picture"]);
  if (figure.querySelector("[data-curves]")) entries.push(["CSV", () => sheet(rowsOfCurves(figure), name(".csv")),
    "the curves"]);
  if (entries.length) buttons(figure, "afterbegin", entries);
}
for (const frame of document.querySelectorAll(".wide")) {
  const lines = [...frame.querySelectorAll("tr")], words = frame.closest("section")?.querySelector("h2");
  if (lines.length < 3 || !frame.querySelector("thead")) continue;
  buttons(frame, "afterend", [["CSV", () => sheet(lines.map((line) => [...line.children].map((one) =>
    one.textContent.trim())), named(words ? words.textContent : "table", ".csv")), "this table"]]);
}
"""

HASH = "sha256-" + base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode("ascii")
"""Source expression of the script in a content security policy."""
