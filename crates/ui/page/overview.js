// The first view: what is broken, why, and since when.

import { h, mark, say, setMark } from "./dom.js";
import { address, tally } from "./model.js";
import { causes, problems } from "./problems.js";
import { counted, iso, since } from "./words.js";

// Explanations that are fetched for the list, how long one is good for, and the pause between two requests.
const EXPLAINED = 12;
const GOOD_FOR = 30;
const PAUSE = 150;
// Rows that are drawn of each list. More broken things than that have one cause, which is further up.
const DRAWN = 200;

export class Overview {
  title = "Problems";

  constructor(model) {
    this.model = model;
    this.texts = new Map();
    this.rows = new Map();
    this.heading = h("h1", { tabindex: "-1" }, "Problems");
    this.summary = h("p", { class: "summary" });
    this.broken = h("ul", { class: "problems", "aria-label": "Broken" });
    this.movingHeading = h("h2", {}, "Under way");
    this.movingNote = h("p", { class: "quiet" }, "Changes that have not ended. What takes longer than a minute counts as broken.");
    this.moving = h("ul", { class: "problems", "aria-label": "Under way" });
    this.more = h("p", { class: "quiet" });
    this.root = h("section", {}, this.heading, this.summary, this.broken, this.more, this.movingHeading, this.movingNote, this.moving);
    this.timer = setInterval(() => this.update(new Set(["rows"])), 1000);
    this.explain();
  }

  close() {
    clearInterval(this.timer);
    this.isClosed = true;
  }

  update() {
    const { model } = this;
    if (!model.isComplete) return;
    const { broken, moving } = problems(model);
    this.items = broken;
    say(this.heading, broken.length ? counted(broken.length, "problem") : "Nothing is broken");
    this.heading.className = broken.length ? "" : "well";
    say(this.summary, this.facts());
    this.fill(this.broken, broken.slice(0, DRAWN));
    this.fill(this.moving, moving.slice(0, DRAWN));
    const left = broken.length - DRAWN;
    say(this.more, left > 0 ? `and ${left} more` : "");
    this.movingHeading.hidden = this.movingNote.hidden = this.moving.hidden = !moving.length;
    this.broken.hidden = !broken.length;
  }

  facts() {
    const { picture } = this.model;
    const [fine, moving, broken] = tally(picture.rows("Pod").values());
    const nodes = [...picture.rows("Node").values()];
    const ready = nodes.filter((node) => node.level === 0).length;
    return `${ready} of ${counted(nodes.length, "node")} ready; ${counted(fine + moving + broken, "pod")}, ${fine} ready`
      + `${moving ? `, ${moving} under way` : ""}${broken ? `, ${broken} broken` : ""}.`;
  }

  // Keeps the rows of what is still there, so that neither focus nor selection is lost.
  fill(list, items) {
    const wanted = items.map((item) => this.row(item, list));
    wanted.forEach((row, at) => {
      if (list.children[at] !== row) list.insertBefore(row, list.children[at] ?? null);
    });
    while (list.children.length > wanted.length) {
      this.rows.delete(list.lastChild.dataset.id);
      list.lastChild.remove();
    }
  }

  row(item, list) {
    const id = `${list === this.broken ? "b" : "m"} ${item.id}`;
    let row = this.rows.get(id);
    if (!row) {
      const link = h("a", {}, h("span", { class: "kind" }), " ", h("span", { class: "name" }));
      row = h("li", { "data-id": id }, mark(item.level), h("div", { class: "what" }, link, h("p", { class: "state" }), h("p", { class: "cause" })),
        h("time", { class: "since" }));
      this.rows.set(id, row);
    }
    const [sign, what, time] = row.children;
    const [link, state, cause] = what.children;
    setMark(sign, item.level);
    const { row: object } = item;
    link.href = object ? address(object) : "#/controllers";
    say(link.children[0], object ? object.kind : "controller");
    say(link.children[1], object ? object.key : item.controller);
    say(state, object ? object.text : item.text);
    const found = object && this.texts.get(item.id);
    say(cause, found?.text || causes(item));
    cause.hidden = !cause.textContent;
    const now = this.model.now();
    say(time, since(item.since, now));
    if (item.since) time.dateTime = iso(item.since);
    return row;
  }

  // Asks for the reason of what is on the list, one after the other, so that it costs little.
  async explain() {
    while (!this.isClosed) {
      const item = this.next();
      if (item && !document.hidden) {
        const known = { at: this.model.now(), stamp: stamp(item), text: this.texts.get(item.id)?.text };
        this.texts.set(item.id, known);
        known.text = await blocker(item.row);
        this.update();
      }
      await new Promise((done) => setTimeout(done, item ? PAUSE : 500));
    }
  }

  next() {
    const now = this.model.now();
    return (this.items ?? []).slice(0, EXPLAINED).find((item) => {
      const known = this.texts.get(item.id);
      return item.row && (!known || known.stamp !== stamp(item) && now - known.at > 2 || now - known.at > GOOD_FOR);
    });
  }
}

const stamp = (item) => `${item.row.level} ${item.row.text} ${causes(item)}`;

// What keeps an object from being as it should be, in a sentence.
async function blocker({ kind, namespace, name }) {
  try {
    const answer = await fetch(`why?${new URLSearchParams({ kind, namespace, name })}`);
    if (!answer.ok) return "";
    const { object, findings } = await answer.json();
    const first = findings.find((finding) => finding.weight !== "notes");
    if (!first) return "";
    const isOwn = first.about.kind === object.kind && first.about.name === object.name;
    const also = first.also?.length ? ` and ${first.also.length} more` : "";
    return isOwn ? first.text : `${first.about.kind} ${first.about.name}${also}: ${first.text}`;
  } catch {
    return "";
  }
}
