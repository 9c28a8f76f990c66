// The controllers: how fast they sync, what waits, what fails, and how current their caches are.

import { classes, h, mark, say, setMark } from "./dom.js";
import { counted, rate, span } from "./words.js";

const COLUMNS = [
  ["name", "Controller", "", ""],
  ["rate", "Syncs/s", "Syncs in a second, over the last ten seconds", "n"],
  ["failed", "Failed/s", "Failed syncs in a second, over the last ten seconds", "n"],
  ["ready", "Queue", "Keys that wait for a worker", "n"],
  ["oldest", "Oldest key", "The key that has waited for a worker for longest", ""],
  ["failing", "Retrying", "Keys whose last sync failed", "n"],
  ["barrier", "Barrier", "Keys that wait until the cache shows what was written for them", "n"],
  ["quarantine", "Quarantine", "Keys that wait because their sync panicked", "n"],
  ["caches", "Caches", "Whether the caches follow the API server", ""],
];

export class Controllers {
  title = "Controllers";

  constructor(model) {
    this.model = model;
    this.rows = new Map();
    this.open = new Set();
    this.note = h("p", { class: "notice", hidden: true }, "This process stands by: it follows the cluster and does not sync until it leads.");
    const heads = COLUMNS.map(([, text, help, kind]) => h("th", { scope: "col", class: kind, title: help }, text));
    this.body = h("tbody");
    this.quiet = h("p", { class: "quiet" });
    this.root = h("section", {}, h("h1", { tabindex: "-1" }, "Controllers"), this.note, this.quiet,
      h("div", { class: "scroll", role: "region", "aria-label": "Controllers", tabindex: "0" },
        h("table", { class: "controllers" }, h("thead", {}, h("tr", {}, heads)), this.body)));
  }

  close() {}

  update(changed) {
    if (!changed.has("controllers")) return;
    const { picture } = this.model;
    this.note.hidden = picture.leads !== false;
    const sorted = [...picture.controllers].sort((a, b) => trouble(b) - trouble(a) || (a.name < b.name ? -1 : 1));
    const [bad, retrying] = [2, 1].map((level) => sorted.filter((controller) => trouble(controller) === level).length);
    say(this.quiet, `${sorted.length} run: ${bad || "none"} in trouble, ${retrying || "none"} with something to retry. A name shows more.`);
    const wanted = [];
    for (const controller of sorted) wanted.push(...this.row(controller));
    wanted.forEach((row, at) => {
      if (this.body.children[at] !== row) this.body.insertBefore(row, this.body.children[at] ?? null);
    });
    while (this.body.children.length > wanted.length) this.body.lastChild.remove();
  }

  row(controller) {
    let rows = this.rows.get(controller.name);
    if (!rows) this.rows.set(controller.name, (rows = this.fresh(controller.name)));
    const [row, detail] = rows;
    const level = trouble(controller) > 1 ? 2 : trouble(controller) > 0 ? 1 : 0;
    setMark(row.querySelector(".mark"), level);
    const values = this.values(controller);
    COLUMNS.slice(1).forEach(([id], at) => {
      const cell = row.children[at + 1];
      say(cell, values[id].text);
      classes(cell, [COLUMNS[at + 1][3], values[id].tone ?? ""].join(" ").trim());
      cell.title = values[id].text.length > 26 ? values[id].text : "";
    });
    const isOpen = this.open.has(controller.name);
    detail.hidden = !isOpen;
    row.querySelector("button").setAttribute("aria-expanded", String(isOpen));
    if (isOpen) this.explain(detail.firstChild, controller);
    return rows;
  }

  fresh(name) {
    const toggle = h("button", { type: "button", class: "plain", "aria-expanded": "false", "aria-controls": `about-${name}`, onclick: () => {
      this.open.has(name) ? this.open.delete(name) : this.open.add(name);
      this.update(new Set(["controllers"]));
    } }, name.replace(/-controller$/, ""));
    const row = h("tr", {}, h("th", { scope: "row" }, mark(0), toggle), COLUMNS.slice(1).map(() => h("td")));
    const detail = h("tr", { id: `about-${name}`, class: "detail", hidden: true }, h("td", { colspan: String(COLUMNS.length) }));
    return [row, detail];
  }

  values({ name, work, stale = [], caches }) {
    const zero = { text: work ? "0" : "–", tone: "dim" };
    const number = (n, tone) => (n ? { text: String(n), tone } : zero);
    const perSecond = this.model.rate(name, "syncs");
    const failures = this.model.rate(name, "failures");
    return {
      rate: work ? { text: rate(perSecond), tone: perSecond ? "" : "dim" } : { text: "in rounds", tone: "dim" },
      failed: failures ? { text: rate(failures), tone: "warn" } : zero,
      ready: number(work?.ready, work?.ready > 100 ? "warn" : ""),
      oldest: work?.oldest ? { text: `${work.oldest[0]}, ${span(work.oldest[1])}`, tone: work.oldest[1] > 10 ? "warn" : "" } : { text: "–", tone: "dim" },
      failing: number(work?.failing, "warn"),
      barrier: number(work?.barrier, ""),
      quarantine: number(work?.quarantine, "bad"),
      caches: stale.length
        ? { text: stale.map(([resource, seconds, error]) => (error ? `${resource}: ${span(seconds)} old` : `${resource}: not filled yet`)).join(", "), tone: "bad" }
        : { text: caches ? `${caches} current` : "–", tone: "dim" },
    };
  }

  explain(cell, controller) {
    const { work, stale = [], unhealthy, remark } = controller;
    const facts = [];
    const fact = (name, text) => text && facts.push(h("dt", {}, name), h("dd", {}, text));
    fact("Health", unhealthy ? `fails: ${unhealthy}` : remark || "passes");
    for (const [resource, seconds, error] of stale) fact(`Cache of ${resource}`, error ? `${span(seconds)} old: ${error}` : "not filled yet");
    if (work) {
      fact("Syncs", `${work.syncs} so far, ${work.failures} of them failed; ${work.running} at the moment, ${counted(work.delayed, "key")} due later`);
      fact("Longest sync now", work.longest && `${work.longest[0]}, for ${span(work.longest[1])}`);
      fact("Fails most", work.worst && `${work.worst[0]}, ${work.worst[1]} times in a row`);
      fact("In quarantine", work.quarantined.map(([key, seconds]) => `${key} (again in ${span(seconds)})`).join(", "));
    } else {
      fact("Work", "in rounds instead of by key: it has no queue");
    }
    cell.replaceChildren(h("dl", {}, facts));
  }
}

// 2: somebody has to look; 1: it retries.
function trouble({ work, stale = [], unhealthy }) {
  if (unhealthy || stale.some(([, , error]) => error) || work?.quarantine) return 2;
  return work?.failing || work?.oldest?.[1] > 10 ? 1 : 0;
}
