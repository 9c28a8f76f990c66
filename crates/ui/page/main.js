// Puts the page together: the stream, the views, the search.

import { Activity } from "./activity.js";
import { Controllers } from "./controllers.js";
import { attribute, h, say } from "./dom.js";
import { follow } from "./live.js";
import { GROUPS, Model, address } from "./model.js";
import { Nodes } from "./nodes.js";
import { ObjectView } from "./object.js";
import { Overview } from "./overview.js";
import { problems, seriousness } from "./problems.js";
import { Time } from "./time.js";
import { counted, span } from "./words.js";

const model = new Model();
const main = document.getElementById("main");
const byId = (id) => document.getElementById(id);
const time = new Time(model, byId("time"));
let view, viewName;

const VIEWS = {
  "": ["problems", () => new Overview(model)],
  nodes: ["nodes", () => new Nodes(model)],
  controllers: ["controllers", () => new Controllers(model)],
  activity: ["activity", () => new Activity(model)],
  object: ["object", (query) => new ObjectView(model, asked(query))],
};

function asked(query) {
  const group = query.get("group");
  return { kind: query.get("kind") ?? "", namespace: query.get("namespace") ?? "", name: query.get("name") ?? "", group: group === null ? undefined : group };
}

function route(isFirst) {
  if (location.hash === "#main") return;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, make] = VIEWS[path] ?? VIEWS[""];
  view?.close();
  view = make(new URLSearchParams(query));
  viewName = name;
  main.replaceChildren(view.root);
  for (const link of document.querySelectorAll("#nav a")) {
    link.dataset.view === name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  draw(new Set(["rows", "controllers", "lines"]));
  scrollTo(0, 0);
  if (!isFirst) main.querySelector("h1")?.focus({ preventScroll: true });
}

function draw(changed) {
  time.update();
  if (!model.isComplete) return;
  view.update(changed);
  if (changed.has("rows") || changed.has("controllers")) header();
}

function header() {
  const { picture, about } = model;
  say(byId("component"), about ? `${about.component}${picture.leads === false ? " (standing by)" : ""}` : "");
  const broken = problems(model).broken.length;
  const count = byId("problem-count");
  say(count, broken ? String(broken) : "");
  attribute(count, "aria-label", broken ? `: ${broken}` : "");
  const pods = picture.rows("Pod").size, nodes = picture.rows("Node").size;
  say(byId("facts"), `${about?.version ?? ""} · ${counted(nodes, "node")} · ${counted(pods, "pod")}`);
  document.title = `${broken ? `(${broken}) ` : ""}${view.title} · Flyball`;
}

// Messages come four times a second at most; more often nobody can read.
let pending = new Set();
let frame = 0;
function later(changed) {
  for (const what of changed) pending.add(what);
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const now = pending;
    pending = new Set();
    draw(now);
  });
}

let lost = null;
function showState(state) {
  lost = state.live ? null : state;
  const link = byId("link");
  attribute(link, "class", `link ${lost ? "lost" : "live"}`);
  say(link, lost ? `not live: ${lost.lost}` : "live");
  document.body.classList.toggle("old", Boolean(lost));
}

// The search: names of what is in the model, or any kind as for kubectl.
const text = byId("find-text");
const found = byId("found");
let chosen = -1;

function matches(words) {
  const hits = [];
  const now = model.now();
  for (const [kind, rows] of model.picture.kinds) {
    for (const row of rows.values()) {
      const name = `${kind}/${row.key}`.toLowerCase();
      if (words.every((word) => name.includes(word))) hits.push({ row, rank: (row.name === words[0] ? 0 : row.name.startsWith(words[0]) ? 1 : 2) + (kind === "Pod" ? 0.5 : 0) - (seriousness(row, now) === 2 ? 0.2 : 0) });
      if (hits.length > 5000) break;
    }
  }
  hits.sort((a, b) => a.rank - b.rank || (a.row.key < b.row.key ? -1 : 1));
  return hits.slice(0, 10).map(({ row }) => ({ href: address(row), text: `${row.kind} ${row.key}`, note: row.text }));
}

// kind/name, kind/name namespace
function exactly(value) {
  const [object, namespace = "default"] = value.trim().split(/\s+/);
  const [kind, name, more] = object.split("/");
  if (!kind || !name || more !== undefined) return [];
  return [{ href: address({ kind, namespace, name, group: GROUPS[kind] }), text: `${kind}/${name}`, note: `ask the API server, namespace ${namespace}` }];
}

function search() {
  const value = text.value.trim();
  const words = value.toLowerCase().split(/[\s/]+/).filter(Boolean);
  const hits = words.length ? [...matches(words), ...exactly(value)] : [];
  chosen = hits.length ? 0 : -1;
  found.replaceChildren(...hits.map((hit, at) => h("li", { role: "option", id: `hit-${at}`, "data-href": hit.href, onmousedown: (event) => { event.preventDefault(); go(hit.href); } },
    hit.text, " ", h("span", { class: "quiet" }, hit.note))));
  found.hidden = !hits.length;
  attribute(text, "aria-expanded", String(!found.hidden));
  choose();
}

function choose() {
  [...found.children].forEach((hit, at) => attribute(hit, "aria-selected", String(at === chosen)));
  chosen >= 0 ? attribute(text, "aria-activedescendant", `hit-${chosen}`) : text.removeAttribute("aria-activedescendant");
}

function closeSearch() {
  found.hidden = true;
  attribute(text, "aria-expanded", "false");
}

function go(href) {
  text.value = "";
  closeSearch();
  location.hash = href;
}

text.addEventListener("input", search);
text.addEventListener("blur", closeSearch);
text.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && found.children.length) {
    event.preventDefault();
    chosen = (chosen + step + found.children.length) % found.children.length;
    choose();
  }
  if (event.key === "Escape") closeSearch();
});
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  const hit = found.children[chosen];
  if (hit) go(hit.dataset.href);
});
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
  event.preventDefault();
  text.focus();
});

addEventListener("hashchange", () => route(false));
route(true);
follow((message) => later(model.take(message)), showState);
setInterval(() => {
  if (lost?.since) say(byId("link"), `not live for ${span((Date.now() - lost.since) / 1000)}: ${lost.lost}`);
}, 1000);
