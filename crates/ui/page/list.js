// A list that only has the rows that can be seen, however long it is. All rows have one height. Arrow keys, Page Up, Page Down,
// Home and End move the focus from row to row; screen readers get position and size.

import { attribute, h } from "./dom.js";

const SPARE = 6;

export class List {
  // `make` builds an empty row, `fill` puts an item into it; items have an `id`.
  constructor({ label, height, make, fill }) {
    Object.assign(this, { height, make, fill, items: [], rows: new Map(), free: [], focused: 0 });
    this.space = h("div", { class: "space" });
    this.root = h("div", { class: "list", role: "list", "aria-label": label, tabindex: "-1" }, this.space);
    this.root.addEventListener("scroll", () => this.later(), { passive: true });
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.root.addEventListener("focusin", (event) => {
      const row = event.target.closest("[data-at]");
      if (row) this.focused = Number(row.dataset.at);
    });
    this.resizes = new ResizeObserver(() => this.later());
    this.resizes.observe(this.root);
  }

  close() {
    this.resizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  show(items) {
    this.items = items;
    this.later();
  }

  later() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.space.style.height = `${this.items.length * this.height}px`;
    this.root.style.maxHeight = `${this.items.length * this.height + 2}px`;
    const top = this.root.scrollTop;
    const first = Math.max(0, Math.floor(top / this.height) - SPARE);
    const last = Math.min(this.items.length, Math.ceil((top + this.root.clientHeight) / this.height) + SPARE);
    const wanted = new Set();
    for (let at = first; at < last; at++) wanted.add(this.items[at].id);
    for (const [id, row] of this.rows) {
      if (wanted.has(id)) continue;
      // The focus must not fall out of the list.
      if (row.contains(document.activeElement)) this.root.focus({ preventScroll: true });
      this.rows.delete(id);
      row.hidden = true;
      this.free.push(row);
    }
    for (let at = first; at < last; at++) this.place(at);
  }

  place(at) {
    const item = this.items[at];
    let row = this.rows.get(item.id);
    if (!row) {
      row = this.free.pop() ?? this.fresh();
      row.hidden = false;
      this.rows.set(item.id, row);
    }
    const y = `translateY(${at * this.height}px)`;
    if (row.style.transform !== y) row.style.transform = y;
    row.dataset.at = at;
    attribute(row, "aria-setsize", String(this.items.length));
    attribute(row, "aria-posinset", String(at + 1));
    this.fill(row, item);
  }

  fresh() {
    const row = this.make();
    row.classList.add("row");
    row.setAttribute("role", "listitem");
    this.space.append(row);
    return row;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.target.matches("input, select") || !this.items.length) return;
    event.preventDefault();
    this.focused = Math.min(Math.max(this.focused + step, 0), this.items.length - 1);
    const y = this.focused * this.height;
    if (y < this.root.scrollTop) this.root.scrollTop = y;
    if (y + this.height > this.root.scrollTop + this.root.clientHeight) this.root.scrollTop = y + this.height - this.root.clientHeight;
    this.draw();
    const row = this.rows.get(this.items[this.focused].id);
    (row?.querySelector("a, button") ?? row)?.focus({ preventScroll: true });
  }
}
