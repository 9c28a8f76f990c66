// One object: what keeps it from being as it should be, what belongs to it, what happened.

import { buttons } from "./acts.js";
import { attribute, h, mark, say, setMark } from "./dom.js";
import { List } from "./list.js";
import { address } from "./model.js";
import { seriousness } from "./problems.js";
import { clock, counted, iso, parsed, since, span } from "./words.js";

// An explanation is asked for again when its rows have changed, but not more often than this, and at least as often as that.
const SOONEST = 1500;
const LATEST = 15000;

const WORDS = { blocks: "Blocked", waits: "Waiting", notes: "Note" };

export class ObjectView {
  constructor(model, asked) {
    this.model = model;
    this.asked = asked;
    this.title = `${asked.kind} ${asked.name}`;
    this.heading = h("h1", { tabindex: "-1" }, h("span", { class: "kind" }, asked.kind), " ", h("span", { class: "name" }, asked.namespace ? `${asked.namespace}/${asked.name}` : asked.name));
    this.state = h("span");
    this.since = h("span", { class: "since" });
    this.headline = h("p", { class: "headline" }, this.state, this.since);
    this.buttons = h("div", { class: "buttons" });
    this.answer = h("div", { "aria-busy": "true" }, h("p", { class: "quiet" }, "Asking why…"));
    this.rest = h("div");
    this.age = h("p", { class: "quiet" });
    this.root = h("section", { class: "object" }, this.heading, this.headline, this.buttons, this.answer);
    if (asked.kind === "Node") this.addPods();
    this.root.append(this.rest, this.age);
    this.asks = 0;
    this.timer = setInterval(() => this.tick(), 500);
    this.ask();
  }

  close() {
    this.isClosed = true;
    clearInterval(this.timer);
    this.list?.close();
  }

  addPods() {
    this.podsHeading = h("h2", {}, "Pods");
    this.list = new List({ label: `Pods of ${this.asked.name}`, height: 36, make: makePod, fill: (row, { pod, now }) => fillPod(row, pod, now) });
    this.root.append(this.podsHeading, this.list.root);
  }

  update(changed) {
    if (changed.has("rows")) {
      this.isStale = this.stamp !== (this.stamp = this.stampNow()) || this.isStale;
      this.drawButtons();
      this.drawPods();
      this.drawSince();
    }
  }

  drawSince() {
    const { kind, namespace, name } = this.asked;
    const row = this.model.find(kind, namespace, name);
    const isBad = row && row.level !== 0;
    say(this.since, isBad ? ` ${since(row.since, this.model.now())}` : "");
  }

  // Changes when the object, or a pod that belongs to it, does.
  stampNow() {
    const { kind, namespace, name } = this.asked;
    const { picture } = this.model;
    const own = this.model.find(kind, namespace, name);
    const pods = picture.podsOfTop.get(`${namespace}/${kind}/${name}`) ?? (kind === "Node" ? picture.podsOfNode.get(name) : null);
    let sum = `${own?.level} ${own?.text} ${own?.since}`;
    if (pods && pods.size <= 500) for (const pod of pods.values()) sum += `|${pod.key} ${pod.text} ${pod.node}`;
    else if (pods) sum += tallyText(pods);
    return sum;
  }

  drawButtons() {
    const { kind, namespace, name } = this.asked;
    const row = this.model.find(kind, namespace, name);
    const wanted = `${Boolean(row)} ${row?.power ?? ""}`;
    if (this.buttonsFor === wanted) return;
    this.buttonsFor = wanted;
    this.buttons.replaceChildren(...buttons(this.model, this.asked));
    this.buttons.hidden = !this.buttons.children.length;
  }

  drawPods() {
    if (!this.list) return;
    const now = this.model.now();
    const pods = [...(this.model.picture.podsOfNode.get(this.asked.name)?.values() ?? [])];
    const order = (pod) => [2, 1, 0, 3][seriousness(pod, now)] ?? 3;
    pods.sort((a, b) => rankOf(a, now) - rankOf(b, now) || order(b) - order(a) || (a.key < b.key ? -1 : 1));
    say(this.podsHeading, counted(pods.length, "pod"));
    this.list.show(pods.map((pod) => ({ id: pod.key, pod, now })));
    this.list.root.hidden = !pods.length;
  }

  tick() {
    const age = Date.now() - (this.askedAt ?? 0);
    if (!this.isAsking && !document.hidden && (age > LATEST || (this.isStale && age > SOONEST))) this.ask();
    if (this.answeredAt) say(this.age, `Explained ${span((Date.now() - this.answeredAt) / 1000)} ago, as \`flyball why ${this.asked.kind.toLowerCase()}/${this.asked.name}${this.asked.namespace ? ` -n ${this.asked.namespace}` : ""}\` does.`);
  }

  async ask() {
    this.isAsking = true;
    this.isStale = false;
    this.askedAt = Date.now();
    const { group, kind, namespace, name } = this.asked;
    const query = new URLSearchParams({ kind, name, namespace: namespace ?? "" });
    if (group !== undefined) query.set("group", group);
    let said;
    try {
      const answer = await fetch(`why?${query}`);
      said = await answer.json().catch(() => ({ error: `the manager answers ${answer.status}` }));
    } catch {
      said = { error: "the manager cannot be reached" };
    }
    this.isAsking = false;
    if (this.isClosed) return;
    this.answer.setAttribute("aria-busy", "false");
    if (said.error) {
      if (!this.answeredAt) this.answer.replaceChildren(h("p", { class: "notice" }, sentence(said.error)));
      else say(this.age, sentence(said.error));
      if (this.answeredAt) this.answeredAt = 0;
      return;
    }
    this.answeredAt = Date.now();
    this.show(said);
  }

  show(found) {
    // The same answer is not drawn again, so that selections and open parts stay.
    const text = JSON.stringify(found);
    if (text === this.shown) return;
    this.shown = text;
    const asked = found.object;
    if (asked.kind !== this.asked.kind) {
      // It was named as for kubectl: `deploy`.
      location.replace(address({ group: "", ...asked }));
      return;
    }
    this.state.replaceChildren(mark(found.healthy ? 0 : 2), found.state);
    const wasOpen = this.rest.querySelector("details")?.open;
    const active = document.activeElement;
    const focused = this.answer.contains(active) || this.rest.contains(active) ? active.getAttribute("href") : null;
    this.answer.replaceChildren(findings(found, asked));
    const rest = [tree(found, asked), waiting(found), history(found, asked, this.model.now()), unknown(found, wasOpen)];
    this.rest.replaceChildren(...rest.filter(Boolean));
    if (focused) [...this.root.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
  }
}

const rankOf = (pod, now) => ({ 2: 0, 1: 1, 0: 2, 3: 3 })[seriousness(pod, now)];

function tallyText(pods) {
  const counts = [0, 0, 0, 0];
  for (const pod of pods.values()) counts[pod.level]++;
  return counts.join(" ");
}

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

const isSame = (a, b) => a.kind === b.kind && a.name === b.name && (a.namespace ?? "") === (b.namespace ?? "");

function named(object, asked) {
  const isNear = !object.namespace || object.namespace === asked.namespace;
  return h("a", { href: address({ group: "", ...object }) }, `${object.kind} ${isNear ? "" : `${object.namespace}/`}${object.name}`);
}

function findings(found, asked) {
  if (!found.findings.length) {
    const text = found.healthy ? "Nothing keeps it from being as it should be." : "No rule knows what keeps it so; the history below may.";
    return h("p", { class: found.healthy ? "verdict fine" : "verdict" }, text);
  }
  const items = found.findings.map((finding, at) => {
    const about = isSame(finding.about, asked) ? [] : [named(finding.about, asked), finding.also?.length ? ` and ${finding.also.length} more` : "", ": "];
    return h("li", { class: `finding ${finding.weight}${at === 0 ? " first" : ""}` },
      h("strong", {}, WORDS[finding.weight] ?? finding.weight), h("div", {}, h("p", {}, about, finding.text),
        finding.try && h("p", { class: "try" }, "Try: ", finding.try)));
  });
  return h("ul", { class: "findings", "aria-label": "What keeps it so" }, items);
}

// A nested list, so that screen readers tell the depth.
function tree(found, asked) {
  if (found.tree.length < 2) return null;
  const root = h("ul");
  const lists = [root];
  found.tree.forEach((level, at) => {
    while (lists.length <= level.depth) {
      const last = lists.at(-1).lastElementChild ?? lists.at(-1).appendChild(h("li"));
      const below = h("ul");
      last.append(below);
      lists.push(below);
    }
    lists.length = level.depth + 1;
    lists[level.depth].append(treeItem(level, asked, isTold(found.tree, at)));
  });
  return h("section", { class: "tree" }, h("h2", {}, "What belongs to it"), root);
}

// Whether the problem is that of something further down, which tells it.
function isTold(tree, at) {
  const { problem, depth } = tree[at];
  for (let below = at + 1; below < tree.length && tree[below].depth > depth; below++) {
    if (tree[below].problem && problem?.endsWith(tree[below].problem)) return true;
  }
  return false;
}

function treeItem(level, asked, isTold) {
  if (!level.object.kind) return h("li", { class: "quiet" }, level.object.name);
  const name = isSame(level.object, asked) ? h("strong", {}, `${level.object.kind} ${level.object.name}`) : named(level.object, asked);
  return h("li", {}, mark(level.healthy ? 0 : 2), name, ` ${level.state}`, level.problem && !isTold && h("span", { class: "cause" }, level.problem));
}

function waiting(found) {
  if (!found.waiting.length) return null;
  return h("section", {}, h("h2", {}, "What controllers wait for"), h("ul", { class: "plainly" }, found.waiting.map((text) => h("li", {}, text))));
}

function history(found, asked, now) {
  if (!found.history.length) return null;
  const latestFirst = [...found.history].reverse();
  const rows = latestFirst.map((entry) => {
    const at = parsed(entry.time);
    return h("tr", { class: entry.source }, h("td", {}, h("time", { datetime: entry.time, title: iso(at) }, clock(at, now))), h("td", { class: "who" }, entry.who),
      h("td", {}, isSame(entry.object, asked) ? [] : [named(entry.object, asked), ": "], entry.what));
  });
  const heads = ["When", "Who", "What"].map((text) => h("th", { scope: "col" }, text));
  return h("section", {}, h("h2", {}, "What happened, the latest first"),
    h("div", { class: "scroll", role: "region", "aria-label": "History", tabindex: "0" }, h("table", { class: "history" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows))));
}

function unknown(found, isOpen) {
  if (!found.unknown.length) return null;
  return h("details", { open: isOpen }, h("summary", {}, "What is not known"), h("ul", { class: "plainly" }, found.unknown.map((text) => h("li", {}, text))));
}

function makePod() {
  return h("div", { class: "pod" }, mark(0), h("a"), h("span", { class: "state" }), h("span", { class: "owner" }));
}

function fillPod(row, pod, now) {
  const [sign, link, state, owner] = row.children;
  setMark(sign, seriousness(pod, now));
  say(link, pod.key);
  attribute(link, "href", address(pod));
  const restarts = pod.restarts ? `, ${counted(pod.restarts, "restart")}` : "";
  say(state, `${pod.text}${restarts}${pod.since && pod.since <= now && pod.level !== 0 ? `, ${span(now - pod.since)}` : ""}`);
  say(owner, pod.top.replace("/", " "));
}
