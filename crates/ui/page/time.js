// The clock of a cluster whose time can be moved: what it shows, and buttons to move it.

import { act } from "./acts.js";
import { h, say } from "./dom.js";
import { iso } from "./words.js";

const JUMPS = [[60, "+1 min", "a minute"], [3600, "+1 h", "an hour"], [86400, "+1 day", "a day"]];
const SPEEDS = [1, 10, 60, 600];

export class Time {
  constructor(model, root) {
    this.model = model;
    this.root = root;
    this.shown = h("time", {});
    this.speed = h("select", { "aria-label": "How fast time goes", onchange: () => act({ do: "speed", speed: Number(this.speed.value) }) });
    for (const speed of SPEEDS) this.speed.append(h("option", { value: String(speed) }, `${speed}×`));
    this.jumps = JUMPS.map(([seconds, text, words]) => h("button", {
      type: "button",
      "aria-label": `Move the clock by ${words}`,
      onclick: () => this.jump(seconds),
    }, text));
    root.append(this.shown, ...this.jumps, this.speed);
    setInterval(() => this.tick(), 250);
  }

  async jump(seconds) {
    for (const button of this.jumps) button.disabled = true;
    await act({ do: "advance", seconds });
    for (const button of this.jumps) button.disabled = false;
  }

  update() {
    const { speed } = this.model;
    this.root.hidden = speed === null;
    if (speed === null || document.activeElement === this.speed) return;
    const given = String(speed);
    // A speed of the command line may be none of ours.
    if (![...this.speed.options].some((option) => option.value === given)) this.speed.append(h("option", { value: given }, `${given}×`));
    this.speed.value = given;
  }

  tick() {
    if (this.root.hidden || document.hidden) return;
    const now = this.model.now();
    this.shown.dateTime = iso(now);
    say(this.shown, `${iso(now).slice(0, 10)} ${new Date(now * 1000).toLocaleTimeString("en-GB")}`);
  }
}
