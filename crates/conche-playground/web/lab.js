// The simulator in a worker.

/// The reason of calls that `stop` ends.
export class Stopped extends Error {}

export class Lab {
  #worker;
  #calls = new Map();
  #count = 0;

  constructor() { this.#start(); }

  #start() {
    this.#worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' });
    this.#worker.onmessage = ({ data: { id, share, value, error } }) => {
      const call = this.#calls.get(id);
      if (!call) return;
      if (share !== undefined) return call.progress?.(share);
      this.#calls.delete(id);
      if (error === undefined) return call.resolve(value);
      call.reject(new Error(error));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#end(new Error(`the simulator cannot be loaded${event.message ? `: ${event.message}` : ''}`));
    };
  }

  /// Sends a `Request` of `main.rs`.
  ask(request, progress) {
    const id = this.#count++;
    return new Promise((resolve, reject) => {
      this.#calls.set(id, { resolve, reject, progress });
      this.#worker.postMessage({ id, request });
    });
  }

  /// Ends all calls: WebAssembly cannot be interrupted, so the worker is replaced.
  stop() {
    this.#worker.terminate();
    this.#end(new Stopped());
    this.#start();
  }

  #end(reason) {
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    calls.forEach(({ reject }) => reject(reason));
  }
}
