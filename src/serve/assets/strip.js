"use strict";
// Words with their probability and, under each, its gates: a row for each layer, a column for each head.

const escapes = { "\n": "↵\n", "\t": "⇥" };

function colourStops() {
  const style = getComputedStyle(document.documentElement);
  return [0, 1, 2, 3, 4].map((i) => {
    const hex = style.getPropertyValue(`--s${i}`).trim();
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  });
}

function colourAt(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * 4;
  const i = Math.min(Math.floor(at), 3);
  return stops[i].map((low, k) => Math.round(low + (at - i) * (stops[i + 1][k] - low)));
}

// One column of text: tokens come in order, gates of each a little later than its text.
class TokenView {
  constructor(section, layout, tip) {
    this.box = section.querySelector(".text");
    this.facts = section.querySelector(".facts");
    this.layout = layout;
    this.tip = tip;
    this.tokens = [];
    this.largest = 0;
    this.shows = true;
    this.box.addEventListener("keydown", (event) => this.move(event));
  }

  clear() {
    this.box.replaceChildren();
    this.facts.textContent = "";
    this.tokens = [];
    this.largest = 0;
  }

  add(name, logprob, top, prompt) {
    const element = document.createElement("span");
    element.className = "token" + (prompt ? " prompt" : "");
    element.tabIndex = this.tokens.length === 0 ? 0 : -1;
    const text = document.createElement("span");
    const bytes = name.startsWith("bytes:");
    if (bytes || /^<[^<>\s]+>$/.test(name)) element.classList.add("special");
    text.textContent = bytes ? name.slice(6) : name.replace(/[\n\t]/g, (c) => escapes[c]);
    if (logprob !== null && !prompt) {
      const p = Math.exp(logprob);
      text.className = p >= 0.5 ? "p0" : p >= 0.1 ? "p1" : p >= 0.01 ? "p2" : "p3";
    }
    element.append(text);
    const token = { element, name, logprob, top, gates: null, canvas: null };
    element.addEventListener("mouseenter", () => this.tip.show(token));
    element.addEventListener("focus", () => this.tip.show(token));
    element.addEventListener("mouseleave", () => this.tip.hide());
    element.addEventListener("blur", () => this.tip.hide());
    this.tokens.push(token);
    this.box.append(element);
    if (name.includes("\n")) {
      const end = document.createElement("span");
      end.className = "end";
      this.box.append(end);
    }
  }

  // gates: [token][entry][head] from token `first` on. True: the scale has changed.
  addGates(first, gates) {
    let grown = false;
    gates.forEach((value, i) => {
      const token = this.tokens[first + i];
      if (!token) return;
      token.gates = value;
      const most = Math.max(0, ...value.flat().map(Math.abs));
      if (most > this.largest) {
        this.largest = most;
        grown = true;
      }
    });
    return grown;
  }

  draw(largest, stops) {
    for (const token of this.tokens) {
      if (!token.gates || !this.shows) {
        if (token.canvas) token.canvas.remove();
        token.canvas = null;
        continue;
      }
      if (token.drawn === largest && token.canvas && token.stops === stops) continue;
      const rows = token.gates.length, heads = token.gates[0].length;
      if (!token.canvas) {
        token.canvas = document.createElement("canvas");
        token.canvas.width = heads;
        token.canvas.height = rows;
        const cell = Math.max(2, Math.min(5, Math.floor(40 / heads)));
        token.canvas.style.width = `${cell * heads}px`;
        token.canvas.style.height = `${Math.max(2, Math.min(5, Math.floor(72 / rows))) * rows}px`;
        token.element.append(token.canvas);
      }
      const context = token.canvas.getContext("2d");
      const image = context.createImageData(heads, rows);
      token.gates.forEach((row, y) => row.forEach((value, x) => {
        const colour = colourAt(stops, largest > 0 ? Math.abs(value) / largest : 0);
        image.data.set([...colour, 255], 4 * (y * heads + x));
      }));
      context.putImageData(image, 0, 0);
      token.drawn = largest;
      token.stops = stops;
    }
  }

  move(event) {
    const at = this.tokens.findIndex((token) => token.element === document.activeElement);
    if (at < 0) return;
    if (event.key === "Escape") return this.tip.hide();
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? this.tokens.length - 1 : step ? at + step : -1;
    if (to < 0 || to >= this.tokens.length) return;
    event.preventDefault();
    this.tokens[at].element.tabIndex = -1;
    this.tokens[to].element.tabIndex = 0;
    this.tokens[to].element.focus();
  }
}

class Tip {
  constructor(element, entries) {
    this.element = element;
    this.entries = entries;
  }

  show(token) {
    const rows = Object.entries(token.top || {}).sort((a, b) => b[1] - a[1]);
    const table = document.createElement("table");
    for (const [name, logprob] of rows) {
      const row = table.insertRow();
      if (name === token.name) row.className = "chosen";
      row.insertCell().textContent = name.replace(/\n/g, "↵").replace(/^ /, "␣");
      const bar = document.createElement("div");
      bar.className = "bar";
      bar.style.width = `${Math.max(1, Math.exp(logprob) * 60)}px`;
      row.insertCell().append(bar);
      row.insertCell().textContent = `${(Math.exp(logprob) * 100).toFixed(1)} %`;
    }
    const lines = [];
    if (token.logprob === null) lines.push("The first token: nothing comes before it.");
    if (token.gates) {
      const mean = token.gates.flat().reduce((a, b) => a + b, 0) / token.gates.flat().length;
      const strongest = token.gates.map((row, i) => [Math.max(...row), i]).sort((a, b) => b[0] - a[0])[0];
      const head = token.gates[strongest[1]].indexOf(strongest[0]);
      lines.push(`Gates: mean ${mean.toFixed(2)}, largest ${strongest[0].toFixed(2)} in layer ${this.entries[strongest[1]].layer}, head ${head}.`);
    }
    this.element.replaceChildren(table, ...lines.map((line) => {
      const p = document.createElement("p");
      p.textContent = line;
      return p;
    }));
    this.element.hidden = false;
    const place = token.element.getBoundingClientRect(), size = this.element.getBoundingClientRect();
    const left = Math.min(Math.max(8, place.left), document.documentElement.clientWidth - size.width - 8);
    const below = place.bottom + 6 + size.height < window.innerHeight;
    this.element.style.left = `${left + window.scrollX}px`;
    this.element.style.top = `${(below ? place.bottom + 6 : Math.max(8, place.top - size.height - 6)) + window.scrollY}px`;
  }

  hide() { this.element.hidden = true; }
}
