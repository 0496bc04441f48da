// Runs the program of `conche-playground.wasm`, whose functions of WASI preview 1 are here: standard
// input and output, clocks and random numbers. It has no files.

const SUCCESS = 0, BAD_FILE = 8;
const STDIN = 0, STDOUT = 1;
const REALTIME = 0;

class Exit extends Error {
  constructor(code) {
    super(`the simulator ended with ${code}`);
    this.code = code;
  }
}

/// Returns the reason of a failure, from the program's standard error.
const reason_of = (errors) => {
  const text = errors.replace(/^note: run with `RUST_BACKTRACE=.*$/m, '').trim();
  if (!/memory allocation of|capacity overflow/.test(text)) return text;
  return 'the scenario needs more memory than this browser gives; use fewer nodes, or run it with the command `conche run`';
};

/// Returns the last line of JSON for a request; `progress` receives each earlier one, a number.
/// Throws what the program writes to standard error.
export const answer = (module, request, progress = () => {}) => {
  let memory, value, line = '', errors = '', read = 0;
  const input = new TextEncoder().encode(JSON.stringify(request));
  const output = new TextDecoder(), error = new TextDecoder();

  const print = (text) => {
    const lines = (line + text).split('\n');
    line = lines.pop();
    for (const json of lines) {
      value = JSON.parse(json);
      if (typeof value === 'number') progress(value);
    }
  };
  /// Calls `transfer` with each buffer of a list, and stores the sum of the bytes.
  const each = (list, count, sum, transfer) => {
    const view = new DataView(memory.buffer);
    let bytes = 0;
    for (let at = list; at < list + 8 * count; at += 8) {
      bytes += transfer(new Uint8Array(memory.buffer, view.getUint32(at, true), view.getUint32(at + 4, true)));
    }
    view.setUint32(sum, bytes, true);
    return SUCCESS;
  };
  const none = (...places) => {
    places.forEach((place) => new DataView(memory.buffer).setUint32(place, 0, true));
    return SUCCESS;
  };

  const functions = {
    args_sizes_get: none,
    environ_sizes_get: none,
    args_get: () => SUCCESS,
    environ_get: () => SUCCESS,
    sched_yield: () => SUCCESS,
    clock_time_get: (clock, _, place) => {
      const ms = clock === REALTIME ? Date.now() : performance.now();
      new DataView(memory.buffer).setBigUint64(place, BigInt(Math.round(ms * 1e6)), true);
      return SUCCESS;
    },
    random_get: (place, bytes) => {
      // At most 65536 bytes for each call.
      for (let at = 0; at < bytes; at += 65536) {
        crypto.getRandomValues(new Uint8Array(memory.buffer, place + at, Math.min(bytes - at, 65536)));
      }
      return SUCCESS;
    },
    fd_read: (file, list, count, sum) => file !== STDIN ? BAD_FILE : each(list, count, sum, (buffer) => {
      const part = input.subarray(read, read + buffer.length);
      buffer.set(part);
      read += part.length;
      return part.length;
    }),
    fd_write: (file, list, count, sum) => each(list, count, sum, (buffer) => {
      if (file === STDOUT) print(output.decode(buffer, { stream: true }));
      else errors += error.decode(buffer, { stream: true });
      return buffer.length;
    }),
    proc_exit: (code) => { throw new Exit(code); },
  };

  const all = WebAssembly.Module.imports(module).map(({ name }) => [name, functions[name] ?? (() => BAD_FILE)]);
  const instance = new WebAssembly.Instance(module, { wasi_snapshot_preview1: Object.fromEntries(all) });
  ({ memory } = instance.exports);
  try {
    instance.exports._start();
  } catch (reason) {
    if (!(reason instanceof Exit) || reason.code !== 0) throw new Error(reason_of(errors) || reason.message);
  }
  return value;
};
