// The buttons, where there are any: in the playground.

import { announce, h } from "./dom.js";

export async function act(request) {
  try {
    const answer = await fetch("act", {
      method: "POST",
      headers: { "content-type": "application/json", "x-flyball-button": "1" },
      body: JSON.stringify(request),
    });
    const said = await answer.json().catch(() => ({ error: `the manager answers ${answer.status}` }));
    if (said.error) announce(`Not done: ${said.error}`, true);
    else announce(`Done: ${said.done}.`);
    return !said.error;
  } catch {
    announce("Not done: the manager cannot be reached.", true);
    return false;
  }
}

// A button that does something, and cannot be pressed twice meanwhile.
export function button(text, describe, request) {
  return h("button", {
    type: "button",
    "aria-label": describe,
    onclick: async (event) => {
      const pressed = event.currentTarget;
      pressed.disabled = true;
      await act(typeof request === "function" ? request() : request);
      pressed.disabled = false;
    },
  }, text);
}

const SCALED = ["Deployment", "StatefulSet", "ReplicaSet"];

// The buttons for an object, as elements.
export function buttons(model, asked) {
  if (!model.about?.acts) return [];
  const { kind, namespace, name } = asked;
  const row = model.find(kind, namespace, name);
  if (!row) return [];
  if (kind === "Pod") {
    return [
      button("Make it fail", `Make the containers of ${name} fail`, { do: "fail-pod", namespace, name }),
      button("Delete", `Delete the pod ${name}`, { do: "delete-pod", namespace, name }),
    ];
  }
  if (kind === "Node" && row.power === "on") return [button("Switch off", `Switch ${name} off`, { do: "stop-node", node: name })];
  if (kind === "Node" && row.power === "off") return [button("Switch on", `Switch ${name} on`, { do: "start-node", node: name })];
  if (SCALED.includes(kind)) {
    const number = h("input", { type: "number", min: "0", max: "100000", id: "replicas", value: String(row.wanted) });
    const scale = () => ({ do: "scale", kind, namespace, name, replicas: Math.max(0, Math.trunc(Number(number.value))) });
    const form = h("form", { class: "scale", onsubmit: (event) => { event.preventDefault(); act(scale()); } },
      h("label", { for: "replicas" }, "Replicas"), number, h("button", { type: "submit" }, "Scale"));
    return [form];
  }
  return [];
}
