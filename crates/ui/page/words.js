// Times and numbers as people read them.

const two = (n) => String(n).padStart(2, "0");

// "8 s", "4 min", "3 h", "12 days"
export function span(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 100) return `${s} s`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min`;
  if (s < 36 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} days`;
}

// The time of a day, with the date if that is another day.
export function clock(unixSeconds, now) {
  const at = new Date(unixSeconds * 1000);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const today = new Date(now * 1000);
  if (at.toDateString() === today.toDateString()) return time;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time.slice(0, 5)}`;
}

// "since 02:13:07 (4 min)"; nothing for a time that is not known or has not come, such as the end of a grace period.
export function since(unixSeconds, now) {
  return unixSeconds > 0 && unixSeconds <= now ? `since ${clock(unixSeconds, now)} (${span(now - unixSeconds)})` : "";
}

export const iso = (unixSeconds) => new Date(unixSeconds * 1000).toISOString();

export const counted = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

export function rate(perSecond) {
  if (perSecond === undefined) return "–";
  if (perSecond === 0) return "0";
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

// The time of an RFC 3339 text, in seconds.
export const parsed = (text) => Date.parse(text) / 1000;
