// The stream of the manager. If it breaks off, another one is asked for, and the page says that what it shows is old.

const LONGEST_PAUSE = 10_000;
// The manager sends four messages a second: without any for so long, the connection is dead.
const SILENCE = 8_000;

export function follow(onMessage, onState) {
  let source, pause = 500, watchdog, lostAt = 0;

  function open() {
    source = new EventSource("stream");
    source.onmessage = (event) => {
      const message = JSON.parse(event.data);
      clearTimeout(watchdog);
      watchdog = setTimeout(() => broken(), SILENCE);
      if (message.end) {
        source.close();
        clearTimeout(watchdog);
        if (message.end === "there are too many viewers") {
          onState({ lost: "closed: the page is open in too many other windows. Reload to see it here." });
          return;
        }
        // A stream that was too slow is not asked for again at once.
        setTimeout(open, message.end === "renew" ? 0 : 2000);
        return;
      }
      if (message.complete) {
        pause = 500;
        lostAt = 0;
        onState({ live: true });
      }
      onMessage(message);
    };
    source.onerror = () => broken();
  }

  async function broken() {
    clearTimeout(watchdog);
    source.close();
    lostAt ||= Date.now();
    onState({ lost: await reason(), since: lostAt });
    setTimeout(open, pause);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }

  // An EventSource does not say why it failed.
  async function reason() {
    try {
      const answer = await fetch("icon.svg", { cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) return "not logged in any more: `flyball ui` prints a new link";
      return "the stream broke off; trying again";
    } catch {
      return "the manager cannot be reached; trying again";
    }
  }

  open();
}
