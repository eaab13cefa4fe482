"use strict";

const $ = (id) => document.getElementById(id);
let model = null, views = [], tip = null, running = null, chat = false, stops = null;
let off = new Set(); // "layer/source/head" of changed gates
const talk = [];

function remember(name, value) {
  try { localStorage.setItem(name, value); } catch { /* private windows */ }
}
function recall(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function headers() {
  const key = $("key").value;
  return Object.assign({ "Content-Type": "application/json" }, key ? { Authorization: `Bearer ${key}` } : {});
}

function setScheme(scheme) {
  document.documentElement.dataset.scheme = scheme;
  $("scheme").textContent = scheme === "dark" ? "Light" : "Dark";
  stops = colourStops();
  drawAll();
}

function tell(message) {
  $("error").textContent = message;
  $("error").hidden = !message;
}

// The intervention that the table stands for, one edit for each layer and source.
function edits() {
  const factor = Number($("factor").value);
  const operation = factor === 0 ? "zero" : `scale=${factor}`;
  const parts = [];
  for (const { layer, source } of model.gates.entries) {
    const heads = [...Array(model.gates.heads).keys()].filter((head) => off.has(`${layer}/${source}/${head}`));
    if (heads.length === 0) continue;
    parts.push(`${operation}@layers=${layer},heads=${heads.join("/")}` + (sources().length > 1 ? `,sources=${source}` : ""));
  }
  return parts.join("+");
}
const sources = () => [...new Set(model.gates.entries.map((entry) => entry.source))];
const all = () => model.gates.entries.flatMap((e) => [...Array(model.gates.heads).keys()].map((h) => `${e.layer}/${e.source}/${h}`));

function button(text, action, label) {
  const element = document.createElement("button");
  element.type = "button";
  element.textContent = text;
  if (label) element.setAttribute("aria-label", label);
  element.addEventListener("click", action);
  return element;
}

function toggle(ids) {
  const on = ids.every((id) => off.has(id));
  for (const id of ids) on ? off.delete(id) : off.add(id);
  showGates();
}

function buildGates() {
  const table = $("gate-table"), several = sources().length > 1;
  const { entries, heads } = model.gates;
  table.replaceChildren();
  const head = table.createTHead().insertRow();
  head.append(document.createElement("th"));
  for (let h = 0; h < heads; ++h) {
    const cell = document.createElement("th");
    cell.append(button(`head ${h}`, () => toggle(entries.map((e) => `${e.layer}/${e.source}/${h}`)), `All gates of head ${h}`));
    head.append(cell);
  }
  const body = table.createTBody();
  for (const { layer, source } of entries) {
    const row = body.insertRow(), cell = document.createElement("th");
    const name = several ? `layer ${layer} on ${source}` : `layer ${layer}`;
    cell.append(button(name, () => toggle([...Array(heads).keys()].map((h) => `${layer}/${source}/${h}`)), `All gates of ${name}`));
    row.append(cell);
    for (let h = 0; h < heads; ++h) {
      const id = `${layer}/${source}/${h}`;
      const gate = button("on", () => toggle([id]), `Gate of ${name}, head ${h}`);
      gate.dataset.gate = id;
      row.insertCell().append(gate);
    }
  }
}

function showGates() {
  const factor = Number($("factor").value);
  $("factor-text").textContent = factor === 0 ? "0 (off)" : factor === 1 ? "1 (as they are)" : String(factor);
  for (const gate of $("gate-table").querySelectorAll("[data-gate]")) {
    const changed = off.has(gate.dataset.gate);
    gate.setAttribute("aria-pressed", String(changed));
    gate.textContent = !changed ? "on" : factor === 0 ? "off" : `×${factor}`;
  }
  $("edit-text").textContent = off.size === 0 ? "none changed" : `${off.size} of ${all().length} changed`;
  $("edited").hidden = off.size === 0;
  $("plain").querySelector("h2").textContent = off.size === 0 ? "Continuation" : "Unchanged";
}

function drawAll() {
  const largest = Math.max(0, ...views.map((view) => view.largest));
  for (const view of views) view.draw(largest, stops);
  const strips = model && model.gates && $("strips").checked && largest > 0;
  $("legend").hidden = !strips;
  if (!strips) return;
  $("scale-max").textContent = largest.toFixed(2);
  const canvas = $("scale"), context = canvas.getContext("2d");
  for (let x = 0; x < canvas.width; ++x) {
    context.fillStyle = `rgb(${colourAt(stops, x / (canvas.width - 1)).join(" ")})`;
    context.fillRect(x, 0, 1, canvas.height);
  }
}

// Server-sent events of a POST, one call of `take` for each.
async function stream(path, body, signal, take) {
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body), signal })
    .catch((error) => { throw error.name === "AbortError" ? error : new Error("The server does not answer."); });
  if (!response.ok) {
    if (response.status === 401) $("key-row").hidden = false;
    const answer = await response.json().catch(() => ({}));
    throw new Error(answer.error ? answer.error.message : `the server answered ${response.status}`);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) {
      if (!part.startsWith("data: ") || part === "data: [DONE]") continue;
      const event = JSON.parse(part.slice(6));
      if (event.error) throw new Error(event.error.message);
      take(event);
    }
  }
}

function common(intervention) {
  return Object.assign({
    max_tokens: Number($("tokens").value), temperature: Number($("temperature").value), top_p: Number($("top-p").value),
    seed: Number($("seed").value), stream: true, gates: Boolean(model.gates),
  }, intervention ? { intervention } : {});
}

// Writes into one view and gives the text.
async function write(view, body, signal) {
  let text = "", count = 0, finish = null;
  const start = performance.now();
  let hiddenTokens = null;
  await stream(chat ? "/v1/chat/completions" : "/v1/completions", body, signal, (event) => {
    const choice = event.choices[0];
    if (!choice) return;
    if (chat) {
      text += choice.delta.content || "";
      for (const token of choice.logprobs ? choice.logprobs.content : []) {
        view.add(token.token, token.logprob, Object.fromEntries(token.top_logprobs.map((t) => [t.token, t.logprob]).reverse()), false);
        ++count;
      }
    } else {
      text += choice.text;
      const lists = choice.logprobs, prompt = view.tokens.length === 0;
      lists.tokens.forEach((name, i) => {
        const given = prompt && i < lists.tokens.length - 1;  // the first event: the prompt and one new token
        view.add(name, lists.token_logprobs[i], lists.top_logprobs[i], given);
        count += given ? 0 : 1;
      });
    }
    if (choice.gates) {
      // Of a chat the prompt's tokens are not shown.
      const hidden = chat ? (hiddenTokens ??= choice.gates.values.length) : 0;
      const first = choice.gates.first_token - hidden;
      view.addGates(Math.max(0, first), first < 0 ? choice.gates.values.slice(-first) : choice.gates.values);
    }
    finish = choice.finish_reason || finish;
    drawAll();
  });
  const seconds = (performance.now() - start) / 1000;
  const why = { stop: "ended by itself", length: "cut at the limit" }[finish] || "stopped";
  view.facts.textContent = `${count} token${count === 1 ? "" : "s"}, ${(count / seconds).toFixed(1)} a second, ${why}`;
  return text;
}

async function go() {
  tell("");
  const views_ = [[views[0], null]];
  if (model.gates && off.size > 0) views_.push([views[1], edits()]);
  for (const view of views) view.clear();
  running = new AbortController();
  $("go").disabled = true;
  $("stop").disabled = false;
  let body;
  if (chat) {
    const content = $("prompt").value;
    if (content.trim()) talk.push({ role: "user", content });
    $("prompt").value = "";
    showTalk();
    body = { messages: talk, logprobs: true, top_logprobs: 5 };
  } else {
    body = { prompt: $("prompt").value, echo: true, logprobs: 5 };
  }
  try {
    const texts = await Promise.all(views_.map(([view, intervention]) =>
      write(view, Object.assign({}, body, common(intervention)), running.signal)));
    if (chat) talk.push({ role: "assistant", content: texts[0] });
  } catch (error) {
    if (error.name !== "AbortError") tell(error.message);
  }
  if (chat) showTalk();
  running = null;
  $("go").disabled = false;
  $("stop").disabled = true;
}

function showTalk() {
  $("talk").replaceChildren(...talk.map(({ role, content }) => {
    const item = document.createElement("li");
    item.className = role;
    item.textContent = (role === "user" ? "You: " : "Model: ") + content;
    return item;
  }));
  $("talk").hidden = !chat || talk.length === 0;
  $("clear").hidden = !chat || talk.length === 0;
}

function setMode(to) {
  chat = to;
  $("mode-completion").setAttribute("aria-pressed", String(!chat));
  $("mode-chat").setAttribute("aria-pressed", String(chat));
  $("prompt-label").textContent = chat ? "Your message" : "Text to continue";
  $("go").textContent = chat ? "Send" : "Write";
  $("prompt").value = chat ? "" : "The horse is";
  for (const view of views) view.clear();
  showTalk();
  drawAll();
}

async function load() {
  try {
    const health = await fetch("/health");
    if (health.status === 503) {
      $("about").textContent = "The model is being loaded …";
      return setTimeout(load, 1000);
    }
    const response = await fetch("/v1/models", { headers: headers() });
    if (response.status === 401) {
      $("key-row").hidden = false;
      $("about").textContent = "This server asks for a key.";
      return;
    }
    model = (await response.json()).data[0];
  } catch {
    $("about").textContent = "The server does not answer.";
    return setTimeout(load, 2000);
  }
  $("model").textContent = model.id;
  document.title = `${model.id} — satformer`;
  const millions = model.parameters >= 1e9 ? `${(model.parameters / 1e9).toFixed(2)} billion` : `${(model.parameters / 1e6).toFixed(1)} million`;
  $("about").textContent = `${model.architecture}, ${millions} parameters, context ${model.max_model_len} tokens` +
    (model.gates ? "" : "; no gates");
  $("tokens").max = model.max_model_len;
  tip = new Tip($("tip"), model.gates ? model.gates.entries : []);
  views = ["plain", "edited"].map((id) => new TokenView($(id), model.gates, tip));
  for (const view of views) view.shows = $("strips").checked;
  $("gates-panel").hidden = !model.gates;
  $("strips").closest("label").hidden = !model.gates;
  if (model.gates) {
    buildGates();
    showGates();
  }
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (model && !running) go();
});
$("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (chat ? !event.shiftKey : event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    $("form").requestSubmit();
  }
});
$("stop").addEventListener("click", () => running && running.abort());
$("mode-completion").addEventListener("click", () => setMode(false));
$("mode-chat").addEventListener("click", () => setMode(true));
$("clear").addEventListener("click", () => { talk.length = 0; setMode(true); });
$("factor").addEventListener("input", showGates);
$("gates-all").addEventListener("click", () => { off = new Set(all()); showGates(); });
$("gates-none").addEventListener("click", () => { off.clear(); showGates(); });
$("strips").addEventListener("change", () => {
  for (const view of views) view.shows = $("strips").checked;
  drawAll();
});
$("key-row").addEventListener("submit", (event) => event.preventDefault());
$("key").addEventListener("change", () => { remember("satformer-key", $("key").value); load(); });
$("scheme").addEventListener("click", () => {
  const next = document.documentElement.dataset.scheme === "dark" ? "light" : "dark";
  remember("satformer-scheme", next);
  setScheme(next);
});
$("key").value = recall("satformer-key") || "";
setScheme(recall("satformer-scheme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
load();
