// Numbers and times as text.

const digits = (value, count) => value.toFixed(count);

/// Returns a time since the start of the run, as in `2 min 03.4 s`.
export const time = (seconds) => {
  if (seconds < 120) return `${digits(seconds, 3)} s`;
  const tenths = Math.round(seconds * 10);
  const [hours, minutes, rest] = [Math.floor(tenths / 36_000), Math.floor(tenths / 600) % 60, (tenths % 600) / 10];
  const end = `${minutes} min ${digits(rest, 1).padStart(4, '0')} s`;
  return hours ? `${hours} h ${end.padStart(13, '0')}` : end;
};

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
