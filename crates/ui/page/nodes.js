// The nodes with their pods, those with trouble first.

import { attribute, h, mark, say, setMark } from "./dom.js";
import { List } from "./list.js";
import { address, tally } from "./model.js";
import { seriousness } from "./problems.js";
import { counted, since } from "./words.js";

const HEIGHT = 44;
// node-2 before node-10. One for all: to make one takes long.
const NAMES = new Intl.Collator("en", { numeric: true });

export class Nodes {
  title = "Nodes";

  constructor(model) {
    this.model = model;
    this.text = h("input", { type: "search", id: "node-filter", spellcheck: "false", placeholder: "Filter: name, zone or state", oninput: () => this.update(new Set(["rows"])) });
    this.summary = h("p", { class: "quiet" });
    this.list = new List({ label: "Nodes, those with trouble first", height: HEIGHT, make, fill: (row, item) => this.fill(row, item) });
    this.root = h("section", { class: "tall" }, h("h1", { tabindex: "-1" }, "Nodes"),
      h("div", { class: "tools" }, h("label", { class: "unseen", for: "node-filter" }, "Filter"), this.text, this.summary), this.list.root);
  }

  close() {
    this.list.close();
  }

  update(changed) {
    if (!changed.has("rows")) return;
    const { picture } = this.model;
    const words = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = (node) => words.every((word) => `${node.name} ${node.zone} ${node.text}`.toLowerCase().includes(word));
    const now = this.model.now();
    const all = [...picture.rows("Node").values()];
    const nodes = all.filter(matches).map((node) => {
      const counts = tally(picture.podsOfNode.get(node.name)?.values() ?? []);
      return { id: node.name, node, counts, level: seriousness(node, now) };
    });
    // Stable while nothing breaks: by trouble, then by name with numbers as numbers.
    nodes.sort((a, b) => (b.level % 3) - (a.level % 3) || b.counts[2] - a.counts[2] || NAMES.compare(a.id, b.id));
    const ready = all.filter((node) => node.level === 0).length;
    const unplaced = [...picture.rows("Pod").values()].filter((pod) => !pod.node && pod.level !== 3).length;
    say(this.summary, `${ready} of ${counted(all.length, "node")} ready${words.length ? `, ${nodes.length} shown` : ""}${unplaced ? `; ${counted(unplaced, "pod")} without a node` : ""}`);
    this.list.show(nodes);
  }

  fill(row, { node, counts, level }) {
    const [sign, link, state, zone, pods, bar] = row.children;
    setMark(sign, level);
    say(link, node.name);
    attribute(link, "href", address(node));
    const now = this.model.now();
    say(state, level === 0 ? node.text : `${node.text} ${since(node.since, now)}`);
    say(zone, node.zone);
    const [fine, moving, broken, over] = counts;
    const present = fine + moving + broken;
    say(pods, `${counted(present, "pod")}${broken ? `, ${broken} broken` : ""}${moving ? `, ${moving} under way` : ""}${over ? `, ${over} completed` : ""}`);
    [broken, moving, fine].forEach((n, at) => {
      const width = `${present ? (n / present) * 100 : 0}%`;
      if (bar.children[at].style.width !== width) bar.children[at].style.width = width;
    });
  }
}

function make() {
  return h("div", { class: "node" }, mark(0), h("a"), h("span", { class: "state" }), h("span", { class: "zone" }), h("span", { class: "pods" }),
    h("span", { class: "share", "aria-hidden": "true" }, h("i", { class: "broken" }), h("i", { class: "moving" }), h("i", { class: "fine" })));
}
