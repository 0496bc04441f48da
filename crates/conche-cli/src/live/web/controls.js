// Play, pause, step and speed of a simulation, with their keys, and requests to the command.
import { $, write } from './dom.js';

/// The reason that the command has given to refuse a control.
export class Refused extends Error {}

/// Browsers open at most six connections to an address, and each page holds one.
const ANSWER_MS = 5000;

/// Sends a control; an error has a text for the user.
export const send = async (control) => {
  let response;
  try {
    response = await fetch('control', {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(control),
      signal: AbortSignal.timeout(ANSWER_MS),
    });
  } catch (error) {
    throw new Error(error.name === 'TimeoutError'
      ? 'The command does not answer: close other pages of the live view.' : 'The command does not answer.');
  }
  if (response.ok) return;
  const answer = await response.json().catch(() => ({}));
  throw new Refused(answer.error ?? `The command answers with ${response.status}.`);
};

/// Keys that a field or a button takes itself. A radio button needs no Space: arrow keys choose it.
const takes = (target, key) => target.closest('input:not([type=checkbox], [type=radio]), dialog')
  || (key === ' ' && target.closest('button, select, [type=checkbox]'));

export class Controls {
  #is_simulation;
  #state = '';
  #chosen;
  #report;

  /// `chosen` returns the chosen nodes; `report` shows a text, and whether it is a problem.
  constructor({ is_simulation }, chosen, report) {
    this.#is_simulation = is_simulation;
    this.#chosen = chosen;
    this.#report = report;
    $('transport').hidden = !is_simulation;
    document.querySelectorAll('.simulation').forEach((it) => { it.hidden = !is_simulation; });
    $('play').addEventListener('click', () => this.#play());
    $('step').addEventListener('click', (event) => this.#step(event));
    $('speeds').addEventListener('change', (event) => {
      const { value } = event.target;
      this.#send({ action: 'speed', value: value === 'max' ? null : Number(value) });
    });
    $('help').addEventListener('click', () => $('keys').showModal());
    addEventListener('keydown', (event) => this.#key(event));
  }

  show({ state, speed }) {
    if (!this.#is_simulation) return;
    this.#state = state;
    write($('play'), state === 'running' ? 'Pause' : 'Play');
    $('play').disabled = $('step').disabled = $('speeds').disabled = state === 'ended';
    for (const it of $('speeds').elements) it.checked = it.value === String(speed ?? 'max');
  }

  async #send(control) {
    try {
      await send(control);
    } catch (error) {
      this.#report(error.message, true);
    }
  }

  #play() { this.#send({ action: this.#state === 'running' ? 'pause' : 'play' }); }

  #step({ shiftKey }) { this.#send({ action: 'step', nodes: shiftKey ? [] : this.#chosen() }); }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || takes(event.target, event.key)) return;
    const can_control = this.#is_simulation && this.#state && this.#state !== 'ended';
    // With Shift, the key of the full stop has another character, which depends on the keyboard.
    const is_step = event.key === '.' || (event.shiftKey && event.code === 'Period');
    const is_control = event.key === ' ' || is_step;
    if (event.key === '?') $('keys').showModal();
    else if (!this.#is_simulation && is_control) this.#report('Programs run in real time: no pause, no step.');
    else if (event.key === ' ' && can_control && !event.repeat) this.#play();
    else if (is_step && can_control) this.#step(event);
    else return;
    event.preventDefault();
  }
}
