// The view of a token map: the text coloured by one track, and beside every token its values in all tracks. Both are drawn
// on canvases as large as what is seen of them, once for each frame in which something changed.
"use strict";

(() => {
  const scaleSteps = 33, levels = 256;  // colours given by the page; colours mixed from them
  const rowHeight = 18, headerHeight = 30, lineHeight = 24, textPad = 8;
  const font = '13px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  const smallFont = font.replace("13px", "12px");

  const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

  function element(name, className, parent, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // Colours of the current scheme.
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const hex = (name) => style.getPropertyValue(`--${name}`).trim();
    const rgb = (name) => [1, 3, 5].map((i) => parseInt(hex(name).slice(i, i + 2), 16));
    const luminance = (colour) => {
      const [r, g, b] = colour.map((c) => (c <= 10 ? c / 3294 : ((c / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const scale = (kind) => {
      const given = Array.from({ length: scaleSteps }, (_, i) => rgb(`${kind}-${i}`));
      return Array.from({ length: levels }, (_, level) => {
        const at = (level / (levels - 1)) * (scaleSteps - 1);
        const i = Math.min(Math.floor(at), scaleSteps - 2);
        const colour = given[i].map((c, k) => Math.round(c + (at - i) * (given[i + 1][k] - c)));
        const text = luminance(colour) >= 0.179 ? "#000000" : "#ffffff";  // the one of more contrast
        return { colour, css: `rgb(${colour.join(" ")})`, text };
      });
    };
    return {
      ink: hex("ink"), soft: hex("soft"), paper: hex("paper"), grid: hex("grid"), accent: hex("accent"),
      blank: { colour: rgb("blank"), css: hex("blank"), text: hex("ink") },
      sequential: scale("sequential"), diverging: scale("diverging"),
    };
  }

  // 16-bit codes, little end first: 0 is blank, c stands for (base + c - 1) * step.
  function decode(text) {
    const bytes = atob(text);
    const codes = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < codes.length; ++i) codes[i] = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    return codes;
  }

  const signs = { "\n": "\u21b5", "\r": "\u240d", "\t": "\u21e5", " ": "\u00b7" };
  const visible = (token) => (token === "" ? "\u2205" : token.replace(/[\n\r\t ]/g, (c) => signs[c]));
  const flowing = (token) => (/[^ ]/.test(token) ? token.replace(/[\n\r\t]/g, (c) => signs[c]) : visible(token));
  const number = (value) => {
    const small = value !== 0 && Math.abs(value) < 1e-4;
    return (small ? value.toExponential(2) : String(Number(value.toPrecision(4)))).replaceAll("-", "\u2212");
  };

  // A scrolling box that holds a canvas over the part that is seen.
  class Pane {
    constructor(parent, kind, label, draw) {
      this.box = element("div", `token-pane ${kind}`, parent);
      this.box.tabIndex = 0;
      this.box.setAttribute("role", "application");
      this.box.setAttribute("aria-label", label);
      this.extent = element("div", "", this.box);
      this.canvas = element("canvas", "", this.extent);
      this.canvas.setAttribute("aria-hidden", "true");
      this.context = this.canvas.getContext("2d");
      this.draw = draw;
      this.pending = false;
      this.box.addEventListener("scroll", () => this.schedule(), { passive: true });
    }

    resize(width, height) {
      const ratio = window.devicePixelRatio || 1;
      this.width = this.box.clientWidth;
      this.height = this.box.clientHeight;
      this.extent.style.width = `${Math.max(width, this.width)}px`;
      this.extent.style.height = `${Math.max(height, this.height)}px`;
      this.canvas.width = Math.round(this.width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
      this.canvas.style.width = `${this.width}px`;
      this.canvas.style.height = `${this.height}px`;
      this.ratio = ratio;
      this.schedule();
    }

    schedule() {
      if (this.pending) return;
      this.pending = true;
      requestAnimationFrame(() => {
        this.pending = false;
        this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
        this.context.clearRect(0, 0, this.width, this.height);
        this.draw(this.context, this.box.scrollLeft, this.box.scrollTop);
      });
    }

    // The least scrolling that shows [from, to) below a header of that height, or right of one of that width.
    show(from, to, header, axis) {
      const position = axis === "y" ? "scrollTop" : "scrollLeft", size = axis === "y" ? this.height : this.width;
      if (from - header < this.box[position]) this.box[position] = from - header;
      else if (to > this.box[position] + size) this.box[position] = to - size;
    }

    // Canvas coordinates of a pointer event.
    point(event) {
      const frame = this.box.getBoundingClientRect();
      return [event.clientX - frame.left - this.box.clientLeft, event.clientY - frame.top - this.box.clientTop];
    }
  }

  class TokenMap {
    constructor(section, data) {
      Object.assign(this, { tokens: data.tokens, tracks: data.tracks, scales: data.scales });
      this.codes = decode(data.values);
      this.token = 0;
      this.track = 0;
      this.shownRows = this.tokens.map(visible);
      this.shownText = this.tokens.map(flowing);
      this.image = document.createElement("canvas");

      const controls = element("div", "token-controls", section);
      this.buildSelect(controls, section);
      this.key = element("div", "token-key", controls);
      this.readout = element("p", "token-readout", section);
      this.readout.setAttribute("role", "status");
      this.text = new Pane(section, "text", `${data.title}: text`, (...view) => this.drawText(...view));
      this.grid = new Pane(section, "grid", `${data.title}: tokens by tracks`, (...view) => this.drawGrid(...view));
      element("p", "token-help", section,
        "Keys in the map: up and down change the token, left and right the track, Page Up and Page Down go by pages, Home " +
        "and End to the first and last token, with Ctrl to the first and last track. Values are kept within " +
        this.scales.filter((_, i) => this.tracks.some((track) => track.scale === i))
          .map((s) => `\u00b1 ${number(s.step / 2)}${s.name ? ` (${s.name})` : ""}`).join(", ") +
        "; zero is exact.");

      this.grid.box.addEventListener("keydown", (event) => this.gridKey(event));
      this.text.box.addEventListener("keydown", (event) => this.textKey(event));
      for (const [pane, find] of [[this.grid, (p) => this.cellAt(p)], [this.text, (p) => this.wordAt(p)]]) {
        pane.box.addEventListener("pointermove", (event) => this.point(find(pane.point(event))));
        pane.box.addEventListener("pointerleave", () => this.point(null));
        pane.box.addEventListener("click", (event) => {
          const cell = find(pane.point(event));
          if (cell) this.select(cell.token, cell.track);
        });
        pane.box.addEventListener("focus", () => this.report());
      }
      document.addEventListener("schemechange", () => this.recolour());
      this.recolour();
      this.layout();
      new ResizeObserver(() => requestAnimationFrame(() => {
        if (this.grid.box.clientWidth !== this.grid.width || this.grid.box.clientHeight !== this.grid.height) this.layout();
      })).observe(this.grid.box);
      this.select(0, 0);
    }

    buildSelect(controls, section) {
      const label = element("label", "", controls, "Track ");
      this.choice = element("select", "", label);
      let group = null, parent = this.choice;
      this.tracks.forEach((track, i) => {
        if (track.group !== group) {
          group = track.group;
          parent = group === "" ? this.choice : element("optgroup", "", this.choice);
          if (group !== "") parent.label = group;
        }
        element("option", "", parent, this.trackName(i)).value = i;
      });
      this.choice.addEventListener("change", () => this.select(this.token, Number(this.choice.value)));
    }

    trackName(i) {
      const { name, group } = this.tracks[i];
      return group && name ? `${group}, ${name}` : group || name;
    }

    value(track, token) {
      const code = this.codes[track * this.tokens.length + token], scale = this.scales[this.tracks[track].scale];
      return code === 0 ? null : (scale.base + code - 1) * scale.step;
    }

    shade(track, token) {
      const value = this.value(track, token), scale = this.scales[this.tracks[track].scale];
      if (value === null) return this.colours.blank;
      const share = clamp((value - scale.low) / (scale.high - scale.low), 0, 1);
      return this.colours[scale.kind][Math.round(share * (levels - 1))];
    }

    // Every cell is one pixel of an image, from which a frame takes the part that is seen.
    recolour() {
      this.colours = readColours();
      const width = this.tracks.length, height = this.tokens.length;
      this.image.width = width;
      this.image.height = height;
      const context = this.image.getContext("2d"), image = context.createImageData(width, height);
      const pixels = new Uint32Array(image.data.buffer);  // red in the first byte of four
      const packed = ([r, g, b]) => new Uint32Array(new Uint8Array([r, g, b, 255]).buffer)[0];
      const blank = packed(this.colours.blank.colour);
      for (let track = 0; track < width; ++track) {
        const scale = this.scales[this.tracks[track].scale];
        const table = this.colours[scale.kind].map((level) => packed(level.colour));
        const factor = (levels - 1) / (scale.high - scale.low);
        for (let token = 0, from = track * height; token < height; ++token, ++from) {
          const code = this.codes[from], value = (scale.base + code - 1) * scale.step;
          const level = Math.round(clamp((value - scale.low) * factor, 0, levels - 1));
          pixels[token * width + track] = code === 0 ? blank : table[level];
        }
      }
      context.putImageData(image, 0, 0);
      this.drawKey();
      this.text.schedule();
      this.grid.schedule();
    }

    layout() {
      const width = this.grid.box.clientWidth, context = this.grid.context;
      const narrow = width < 600;
      context.font = font;
      const widest = this.shownRows.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
      this.numberWidth = narrow ? 0 : 44;
      this.left = this.numberWidth + clamp(Math.ceil(widest) + 14, 56, narrow ? 96 : 180);
      this.cellWidth = clamp(Math.floor((width - this.left - 2) / this.tracks.length), 6, 40);
      this.grid.resize(this.left + this.cellWidth * this.tracks.length + 2, headerHeight + rowHeight * this.tokens.length + 2);
      this.layoutText();
    }

    layoutText() {
      const context = this.text.context, limit = this.text.box.clientWidth - textPad;
      context.font = font;
      this.places = [];  // of each token: x, width, line
      this.lines = [0];  // the first token of each line
      let x = textPad;
      this.shownText.forEach((text, i) => {
        const width = Math.min(context.measureText(text).width + 2, limit - textPad);
        const broken = i > 0 && this.tokens[i - 1].includes("\n");
        if ((x > textPad && x + width > limit) || (broken && x > textPad)) {
          this.lines.push(i);
          x = textPad;
        }
        this.places.push({ x, width, line: this.lines.length - 1 });
        x += width;
      });
      this.text.resize(0, this.lines.length * lineHeight + 2 * textPad);
    }

    drawGrid(context, left, top) {
      if (!this.cellWidth) return;
      const { width, height } = this.grid, colours = this.colours, tracks = this.tracks.length;
      const first = Math.floor(top / rowHeight);
      const last = Math.min(this.tokens.length, first + Math.ceil((height - headerHeight) / rowHeight) + 1);
      const y = (token) => headerHeight + token * rowHeight - top, x = (track) => this.left + track * this.cellWidth - left;
      context.imageSmoothingEnabled = false;
      context.drawImage(this.image, 0, first, tracks, last - first, x(0), y(first), tracks * this.cellWidth,
        (last - first) * rowHeight);
      this.drawGroups(context, x, Math.min(height, y(last)));
      context.fillStyle = colours.paper;
      context.fillRect(0, 0, this.left, height);
      context.lineWidth = 2;
      context.strokeStyle = colours.accent;
      if (x(this.track) >= this.left) {
        context.strokeRect(x(this.track) - 1, y(this.token) - 1, this.cellWidth + 2, rowHeight + 2);
      }
      context.textBaseline = "middle";
      for (let token = first; token < last; ++token) {
        const shade = this.shade(this.track, token), middle = y(token) + rowHeight / 2 + 0.5;
        context.fillStyle = shade.css;
        context.fillRect(this.numberWidth, y(token), this.left - this.numberWidth - 4, rowHeight);
        context.save();
        context.beginPath();
        context.rect(this.numberWidth, y(token), this.left - this.numberWidth - 4, rowHeight);
        context.clip();
        context.font = font;
        context.fillStyle = shade.text;
        context.fillText(this.shownRows[token], this.numberWidth + 5, middle);
        context.restore();
        if (this.numberWidth > 0) {
          context.font = smallFont;
          context.textAlign = "right";
          context.fillStyle = token === this.token ? colours.ink : colours.soft;
          context.fillText(token, this.numberWidth - 6, middle);
          context.textAlign = "left";
        }
      }
      context.strokeRect(this.numberWidth + 1, y(this.token) + 1, this.left - this.numberWidth - 6, rowHeight - 2);
      this.drawHeader(context, width, x);
    }

    drawGroups(context, x, bottom) {
      context.fillStyle = this.colours.paper;
      this.tracks.forEach((track, i) => {
        if (i > 0 && track.group !== this.tracks[i - 1].group) context.fillRect(x(i) - 0.5, headerHeight, 1, bottom - headerHeight);
      });
    }

    // Names over the tracks, those of the largest groups first, each where the ones before it leave room. A group's name
    // stays in sight while one of its tracks is.
    placedNames(context, x) {
      const spans = [];
      this.tracks.forEach((track, i) => {
        if (i > 0 && track.group !== "" && track.group === this.tracks[i - 1].group) spans[spans.length - 1].end = i + 1;
        else spans.push({ name: track.group || track.name, begin: i, end: i + 1 });
      });
      const placed = [];
      for (const span of spans.sort((a, b) => b.end - b.begin - a.end + a.begin)) {
        const width = context.measureText(span.name).width;
        const at = Math.max(x(span.begin), Math.min(this.left, x(span.end) - width - 2)) + 1;
        const end = at + width + 10;
        if (placed.every((other) => end <= other.at || at >= other.end)) placed.push({ name: span.name, at, end });
      }
      return placed;
    }

    // Names of groups where they have room, and a mark over the chosen track.
    drawHeader(context, width, x) {
      context.fillStyle = this.colours.paper;
      context.fillRect(0, 0, width, headerHeight);
      context.save();
      context.beginPath();
      context.rect(this.left, 0, width - this.left, headerHeight);
      context.clip();
      context.font = smallFont;
      context.fillStyle = this.colours.soft;
      for (const { name, at } of this.placedNames(context, x)) context.fillText(name, at, 11);
      context.fillStyle = this.colours.accent;
      const middle = x(this.track) + this.cellWidth / 2;
      context.beginPath();
      context.moveTo(middle - 5, headerHeight - 9);
      context.lineTo(middle + 5, headerHeight - 9);
      context.lineTo(middle, headerHeight - 3);
      context.fill();
      context.restore();
    }

    drawText(context, left, top) {
      if (!this.places) return;
      const first = this.lines[clamp(Math.floor((top - textPad) / lineHeight), 0, this.lines.length - 1)];
      context.font = font;
      context.textBaseline = "middle";
      for (let token = first; token < this.tokens.length; ++token) {
        const { x, width, line } = this.places[token], y = textPad + line * lineHeight - top;
        if (y > this.text.height) break;
        const shade = this.shade(this.track, token);
        context.fillStyle = shade.css;
        context.fillRect(x, y + 2, width - 1, lineHeight - 4);
        context.fillStyle = shade.text;
        context.fillText(this.shownText[token], x, y + lineHeight / 2 + 0.5, width);
        if (token !== this.token) continue;
        context.lineWidth = 2;
        context.strokeStyle = this.colours.accent;
        context.strokeRect(x, y + 2, width - 1, lineHeight - 4);
      }
    }

    drawKey() {
      const scale = this.scales[this.tracks[this.track].scale];
      this.key.replaceChildren();
      if (scale.name) element("span", "", this.key, scale.name);
      element("span", "", this.key, number(scale.low));
      const canvas = element("canvas", "", this.key), context = canvas.getContext("2d");
      canvas.width = levels / 2;
      canvas.height = 12;
      for (let i = 0; i < levels / 2; ++i) {
        context.fillStyle = this.colours[scale.kind][2 * i].css;
        context.fillRect(i, 0, 1, 12);
      }
      element("span", "", this.key, number(scale.high));
    }

    cellAt([x, y]) {
      const track = Math.floor((x + this.grid.box.scrollLeft - this.left) / this.cellWidth);
      const token = Math.floor((y + this.grid.box.scrollTop - headerHeight) / rowHeight);
      if (y < headerHeight || token < 0 || token >= this.tokens.length) return null;
      if (x < this.left) return { token, track: this.track };
      return track < this.tracks.length ? { token, track } : null;
    }

    wordAt([x, y]) {
      const line = Math.floor((y + this.text.box.scrollTop - textPad) / lineHeight);
      if (line < 0 || line >= this.lines.length) return null;
      const end = line + 1 < this.lines.length ? this.lines[line + 1] : this.tokens.length;
      for (let token = this.lines[line]; token < end; ++token) {
        const place = this.places[token];
        if (x >= place.x && x < place.x + place.width) return { token, track: this.track };
      }
      return null;
    }

    select(token, track) {
      const otherTrack = track !== this.track;
      this.token = clamp(token, 0, this.tokens.length - 1);
      this.track = clamp(track, 0, this.tracks.length - 1);
      this.choice.value = this.track;
      if (otherTrack) this.drawKey();
      if (this.cellWidth) {
        const y = headerHeight + this.token * rowHeight, x = this.left + this.track * this.cellWidth;
        this.grid.show(y, y + rowHeight, headerHeight, "y");
        this.grid.show(x, x + this.cellWidth, this.left, "x");
        const line = textPad + this.places[this.token].line * lineHeight;
        this.text.show(line, line + lineHeight, 0, "y");
      }
      this.text.schedule();
      this.grid.schedule();
      this.report();
    }

    // Without a cell under the pointer the chosen one is described.
    point(cell) { this.report(cell || undefined); }

    report({ token, track } = { token: this.token, track: this.track }) {
      const value = this.value(track, token), scale = this.scales[this.tracks[track].scale];
      const said = value === null ? "no value" : `${scale.name ? `${scale.name} ` : ""}${number(value)}`;
      const text = `Token ${token} \u201c${this.shownRows[token]}\u201d \u00b7 ${this.trackName(track)} \u00b7 ${said}`;
      if (this.readout.textContent !== text) this.readout.textContent = text;
    }

    gridKey(event) {
      const page = Math.max(1, Math.floor((this.grid.height - headerHeight) / rowHeight) - 1);
      const { token, track } = this;
      const far = event.ctrlKey || event.metaKey;
      const moves = {
        ArrowUp: [token - 1, track], ArrowDown: [token + 1, track],
        ArrowLeft: [token, track - 1], ArrowRight: [token, track + 1],
        PageUp: [token - page, track], PageDown: [token + page, track],
        Home: far ? [token, 0] : [0, track],
        End: far ? [token, this.tracks.length - 1] : [this.tokens.length - 1, track],
      };
      this.move(event, moves[event.key]);
    }

    textKey(event) {
      const { token, track } = this, { x, line } = this.places[token];
      const inLine = (other) => {
        const wanted = clamp(other, 0, this.lines.length - 1);
        let found = this.lines[wanted];
        while (found + 1 < this.tokens.length && this.places[found + 1].line === wanted && this.places[found + 1].x <= x) ++found;
        return found;
      };
      const moves = {
        ArrowLeft: [token - 1, track], ArrowRight: [token + 1, track],
        ArrowUp: [inLine(line - 1), track], ArrowDown: [inLine(line + 1), track],
        PageUp: [inLine(line - 5), track], PageDown: [inLine(line + 5), track],
        Home: [0, track], End: [this.tokens.length - 1, track],
      };
      this.move(event, moves[event.key]);
    }

    move(event, target) {
      if (!target || event.altKey) return;
      event.preventDefault();
      this.select(...target);
    }
  }

  for (const section of document.querySelectorAll("section.token-map")) {
    const data = JSON.parse(section.querySelector('script[type="application/json"]').textContent);
    if (data.tokens.length === 0 || data.tracks.length === 0) element("p", "", section, "No data.");
    else new TokenMap(section, data);
  }
})();
