// Numbers and times as text.

const digits = (value, count) => value.toFixed(count);

/// Returns a time since the start of the run, as in `2 min 03.4 s`; `count` are the digits after the
/// decimal point if there are minutes.
export const time = (seconds, count = 1) => {
  if (seconds < 120) return `${digits(seconds, 3)} s`;
  const scale = 10 ** count, parts = Math.round(seconds * scale);
  const [hours, minutes] = [Math.floor(parts / scale / 3600), Math.floor(parts / scale / 60) % 60];
  const rest = digits((parts % (60 * scale)) / scale, count).padStart(3 + count, '0');
  return hours ? `${hours} h ${String(minutes).padStart(2, '0')} min ${rest} s` : `${minutes} min ${rest} s`;
};

/// Returns a time in milliseconds, in all its digits.
export const exact = (seconds) => time(seconds, 3);

/// Returns a limit of the scenario, as in `24 h`.
export const duration = (seconds) => {
  for (const [unit, length] of [['h', 3600], ['min', 60]]) {
    if (seconds >= length && seconds % length === 0) return `${seconds / length} ${unit}`;
  }
  return `${seconds} s`;
};

/// Returns a value with three significant digits.
export const short = (value) => {
  if (Number.isNaN(value)) return '–';
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return String(Math.round(value));
  return value.toPrecision(3).replace(/\.?0+$/, '');
};

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? '' : 's'}`;
