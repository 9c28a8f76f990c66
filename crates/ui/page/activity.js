// The activity: what changes, and what controllers decide and write, as it happens.

import { attribute, classes, h, say } from "./dom.js";
import { List } from "./list.js";
import { GROUPS, address } from "./model.js";
import { clock, parsed } from "./words.js";

const VERBS = { create: "creates", update: "updates", patch: "patches", delete: "deletes" };
const SUBRESOURCES = { status: "reports on", binding: "binds", scale: "scales", eviction: "evicts", token: "issues a token for" };

export class Activity {
  title = "Activity";

  constructor(model) {
    this.model = model;
    this.text = h("input", { type: "search", id: "activity-filter", spellcheck: "false", placeholder: "Filter: controller, object, reason", oninput: () => this.draw() });
    this.decisions = this.choice("Decisions");
    this.changes = this.choice("Changes");
    this.pause = h("button", { type: "button", "aria-pressed": "false", onclick: () => this.toggle() }, "Pause");
    this.state = h("p", { class: "quiet" });
    this.list = new List({ label: "Activity, the latest first", height: 30, make, fill });
    this.root = h("section", { class: "tall" }, h("h1", { tabindex: "-1" }, "Activity"),
      h("div", { class: "tools" }, h("label", { class: "unseen", for: "activity-filter" }, "Filter"), this.text,
        this.decisions.label, this.changes.label, this.pause, this.state),
      this.list.root);
  }

  choice(text) {
    const box = h("input", { type: "checkbox", checked: true, onchange: () => this.draw() });
    return { box, label: h("label", {}, box, ` ${text}`) };
  }

  toggle() {
    this.held = this.held ? null : this.model.lines.slice();
    this.pause.setAttribute("aria-pressed", String(Boolean(this.held)));
    this.draw();
  }

  close() {
    this.list.close();
  }

  update(changed) {
    if (!changed.has("lines")) return;
    if (this.held) say(this.state, `paused; ${Math.max(0, this.model.lastLine - (this.held.at(-1)?.id ?? 0) - 1)} more since`);
    else this.draw();
  }

  draw() {
    const words = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const lines = this.held ?? this.model.lines;
    const shown = lines.filter((line) => {
      if (line.decision ? !this.decisions.box.checked : line.change && !this.changes.box.checked) return false;
      const text = words.length ? searched(line) : "";
      return words.every((word) => text.includes(word));
    });
    say(this.state, `${this.held ? "paused; " : ""}${shown.length} of the last ${lines.length} lines`);
    const now = this.model.now();
    // What somebody reads must not move: new lines come in above only if the top is seen.
    const list = this.list.root;
    const first = this.list.items[0]?.id ?? -1;
    const items = shown.reverse().map((line) => ({ id: line.id, line, now }));
    const added = items.findIndex((item) => item.id <= first);
    if (list.scrollTop > 0 && added > 0 && first >= 0) {
      this.list.show(items);
      this.list.space.style.height = `${items.length * 30}px`;
      list.scrollTop += added * 30;
    } else {
      this.list.show(items);
    }
  }
}

function verbOf({ action, subresource }) {
  const verb = VERBS[action] ?? action;
  return subresource ? SUBRESOURCES[subresource] ?? `${verb} ${subresource}` : verb;
}

// What went wrong first: lines are cut off at their end.
function reason({ why, outcome, detail }, failed) {
  return failed ? `${outcome}: ${detail.replace(/^.*? is forbidden: /, "")} (${why})` : why;
}

function searched({ decision, change }) {
  const { target = change ?? {} } = decision ?? {};
  const parts = [decision?.controller, decision?.why, decision?.outcome, decision?.detail, change?.what, target.kind, target.namespace, target.name];
  return parts.join(" ").toLowerCase();
}

function make() {
  return h("div", { class: "line" }, h("time"), h("span", { class: "who" }), h("span", { class: "verb" }), h("a"), h("span", { class: "why" }));
}

function fill(row, { line, now }) {
  const { decision, change, missed } = line;
  const [time, who, verb, link, why] = row.children;
  const target = decision?.target ?? change;
  const failed = decision && decision.outcome !== "done";
  classes(row, `row line ${missed ? "missed" : failed ? "failed" : decision ? "decision" : "change"}`);
  const at = target && parsed((decision ?? change).time);
  say(time, at ? clock(at, now) : "");
  say(who, decision ? decision.controller.replace(/-controller$/, "") : change ? "change" : "");
  say(verb, decision ? verbOf(decision) : "");
  say(link, target ? `${target.kind} ${target.namespace ? `${target.namespace}/` : ""}${target.name}` : "");
  // The server would have completed a name that ends with an asterisk.
  if (target && !target.name.endsWith("*")) attribute(link, "href", address({ ...target, group: change?.group ?? GROUPS[target.kind] }));
  else link.removeAttribute("href");
  say(why, missed ? `${missed} lines in between are not shown` : decision ? reason(decision, failed) : change.what);
  why.title = failed ? `${decision.detail} (${decision.why})` : why.textContent;
}
