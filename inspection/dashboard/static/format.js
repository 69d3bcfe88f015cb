// Figures as text; a dash where one is not known.

export const UNKNOWN = "–";

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// At most three digits that mean something, and no fraction from 100 on.
function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 10) return value.toFixed(2);
  if (size < 100) return value.toFixed(1);
  return grouped.format(Math.round(value));
}

const known = (write) => (value) => (value === null || value === undefined ? UNKNOWN : write(value));

export const rate = known(short);
export const milliseconds = known(short);
export const count = known((value) => grouped.format(value));
const UNITS = ["bytes", "kB", "MB", "GB"];
export const bytes = known((value) => {
  const power = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(value, 1)) / 3)));
  return `${short(power ? value / 1000 ** power : value)} ${UNITS[power]}`;
});
export const seconds = known((value) => (value < 100 ? value.toFixed(1) : grouped.format(Math.round(value))));
export const text = known((value) => (value === "" ? UNKNOWN : String(value)));

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// The time of day, with the day unless it is today.
export const time = known((at) => {
  const then = new Date(at);
  const today = new Date().toDateString() === then.toDateString();
  return today ? clock.format(then) : `${day.format(then)} ${clock.format(then)}`;
});

export const minutes = (at) => clock.format(new Date(at)).slice(0, 5);
export const share = known((value) => `${Math.round(value * 100)} %`);
export const times = known((value) => `${value.toFixed(1)} ×`);
