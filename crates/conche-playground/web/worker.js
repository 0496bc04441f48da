// Answers requests one after the other, each by an instance of its own.
import { answer } from './program.js';

const load = async () => {
  const response = await fetch(new URL('conche-playground.wasm', import.meta.url));
  if (!response.ok) throw new Error(`conche-playground.wasm: ${response.status} ${response.statusText}`);
  // Some servers do not know the type that compiling the response itself requires.
  return WebAssembly.compile(await response.arrayBuffer());
};
const module = load();
// Each request reports a failure.
module.catch(() => {});

onmessage = async ({ data: { id, request } }) => {
  try {
    const progress = (share) => postMessage({ id, share });
    postMessage({ id, value: answer(await module, request, progress) });
  } catch (error) {
    postMessage({ id, error: error?.message ?? String(error) });
  }
};
