'use strict';
// Interactive parts of the page: theme, tooltips, selection of exchanges, the runs of a cell, and
// the comparison of two schemes.
(() => {
  const $ = (id) => document.getElementById(id);

  // Theme: the system's, until the reader selects one.
  const root = document.documentElement;
  const remembered = (value) => {
    try {
      if (value) localStorage.setItem('conche-theme', value);
      return localStorage.getItem('conche-theme');
    } catch {
      return null; // A page from disk may not be allowed to remember.
    }
  };
  if (remembered()) root.dataset.theme = remembered();
  $('theme').onclick = () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    remembered(root.dataset.theme);
  };

  // Tooltips. Their text is a <title>, which the browser would show late and a second time.
  const tip = $('tip');
  const hide = () => { tip.hidden = true; };
  document.addEventListener('pointerover', (event) => {
    const mark = event.target.closest && event.target.closest('.m, .heat td[tabindex]');
    if (!mark) return hide();
    if (mark.tagName === 'TD') mark.dataset.told = told(mark);
    const title = mark.querySelector('title');
    if (title) {
      mark.dataset.told = title.textContent;
      title.remove();
    }
    tip.textContent = mark.dataset.told;
    tip.hidden = false;
    const at = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, at.left + at.width / 2 - own.width / 2), innerWidth - own.width - 4);
    tip.style.left = left + 'px';
    tip.style.top = (at.top > own.height + 8 ? at.top - own.height - 6 : at.bottom + 6) + 'px';
  });
  addEventListener('scroll', hide, { passive: true });

  // Printing opens all tables.
  addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((it) => { it.open = true; }));

  // Timelines: shows the drawing of the selected cell and exchange.
  document.querySelectorAll('.exchanges').forEach((all) => {
    const [cell, which] = all.querySelectorAll('select');
    const show = () => all.querySelectorAll('figure').forEach((it) => {
      it.hidden = it.dataset.at !== `${cell.value}/${which.value}`;
    });
    cell.onchange = which.onchange = show;
    show();
  });

  // Comparison of controllers: the runs of the selected cell, one lane per controller.
  const grids = $('fields') ? JSON.parse($('fields').textContent) : [];
  const close = () => { $('field').hidden = true; };
  const space = new DOMParser().parseFromString('<svg/>', 'text/html').querySelector('svg').namespaceURI;
  const drawn = (tag, attributes, text) => {
    const element = document.createElementNS(space, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text) element.textContent = text;
    return element;
  };
  const spread = (grid, cell, chosen) => {
    const [left, right, lane] = [130, 760, 17];
    const height = cell.of.length * lane + 26;
    const svg = drawn('svg', { viewBox: `0 0 1000 ${height}`, role: 'img', 'aria-label': cell.title });
    const all = cell.of.flatMap((of) => of && of[0] !== null ? [of[0], ...of[4]] : []);
    const least = Math.min(...all), most = Math.max(...all);
    // Values that differ by much more than the smallest one need a logarithmic axis.
    const log = least > 0 && most > 20 * least;
    const on = (value) => log ? Math.log(value) : value;
    const [from, to] = [on(least), on(most)];
    const at = (value) => left + (right - left) * (to > from ? (on(value) - from) / (to - from) : 0.5);
    cell.of.forEach((of, place) => {
      const y = place * lane + 12;
      svg.append(drawn('text', { x: left - 12, y: y + 4, 'text-anchor': 'end', class: place === chosen ? 'chosen' : '' }, grid.controllers[place]));
      svg.append(drawn('path', { class: 'grid', d: `M${left} ${y}H${right}` }));
      if (!of || of[0] === null) {
        svg.append(drawn('text', { x: right + 20, y: y + 4 }, 'no value'));
        return;
      }
      of[4].forEach((run) => svg.append(drawn('circle', { class: 'run', cx: at(run), cy: y, r: 4 })));
      svg.append(drawn('path', { class: 'meant', d: `M${at(of[0])} ${y - 6}V${y + 6}` }));
      svg.append(drawn('text', { x: right + 20, y: y + 4, class: place === chosen ? 'chosen' : '' }, `${of[0].toPrecision(4)} ${ratio_of(of)}`));
    });
    const y = height - 4;
    svg.append(drawn('text', { x: left, y }, least.toPrecision(3)), drawn('text', { x: right, y, 'text-anchor': 'end' }, most.toPrecision(3)));
    svg.append(drawn('text', { x: (left + right) / 2, y, 'text-anchor': 'middle' }, log ? 'logarithmic' : ''));
    return svg;
  };
  const found = (field) => {
    const grid = grids[field.closest('table').dataset.of];
    return [grid, grid.cells[field.dataset.at], field.cellIndex - 2];
  };
  const interval = (of) => of[2] === null ? '' : ` (${of[2].toPrecision(3)} … ${of[3].toPrecision(3)})`;
  const ratio_of = (of) => !of || of[1] === null ? 'no value' : `×${of[1].toPrecision(3)}${interval(of)}`;
  const told = (field) => {
    const [grid, cell, column] = found(field);
    return `${grid.controllers[column]}, ${cell.title}: ${ratio_of(cell.of[column])}`;
  };
  const open = (field) => {
    const [grid, cell, column] = found(field);
    const title = document.createElement('h4');
    title.textContent = cell.title + (cell.unit ? ` (${cell.unit})` : '') + `, ${cell.better} is better`;
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'close';
    button.onclick = close;
    const scroll = document.createElement('div');
    scroll.className = 'scroll';
    scroll.append(spread(grid, cell, column));
    $('field').replaceChildren(button, title, scroll);
    $('field').hidden = false;
  };
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.querySelectorAll('.heat').forEach((heat) => {
    const rows = [...heat.rows].filter((row) => row.querySelector('td[tabindex]'));
    heat.onclick = (event) => {
      const field = event.target.closest('td[tabindex]');
      if (field) { field.focus(); open(field); }
    };
    heat.addEventListener('focusin', (event) => {
      heat.querySelectorAll('td[tabindex="0"]').forEach((it) => { it.tabIndex = -1; });
      event.target.tabIndex = 0;
    });
    heat.onkeydown = (event) => {
      const field = event.target;
      if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        open(field);
      } else if (event.key === 'Escape') {
        close();
      } else if (steps[event.key]) {
        const [down, right] = steps[event.key];
        const row = rows[rows.indexOf(field.parentElement) + down];
        const next = row && row.cells[field.cellIndex + right];
        event.preventDefault();
        if (next && next.hasAttribute('tabindex')) next.focus();
      }
    };
  });

  // Comparison of two schemes.
  const studies = JSON.parse($('values').textContent);
  const form = $('choose'), out = $('ratios');
  if (!studies.length) {
    form.remove();
    out.textContent = 'No experiment here has two schemes.';
    return;
  }
  const fill = (select, names, chosen) => {
    const before = select.selectedOptions[0] && select.selectedOptions[0].text;
    select.replaceChildren(...names.map((name, at) => new Option(name, at)));
    const again = names.indexOf(before);
    select.value = again >= 0 ? again : Math.min(chosen, names.length - 1);
  };
  // The 97.5 % quantile of Student's t, for 1 to 30 degrees of freedom.
  const T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131,
    2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042];
  // A ratio, and the half-width of its interval as a factor: from the runs if they are known,
  // otherwise as if both values were independent.
  const ratio = (one, other) => {
    const value = one[3] / other[3];
    const runs = one.length - 6;
    if (runs > 1 && other.length - 6 === runs) {
      let squares = 0;
      for (let run = 6; run < one.length; run++) {
        squares += ((one[run] - one[3]) / one[3] - (other[run] - other[3]) / other[3]) ** 2;
      }
      return { value, reach: Math.exp((T[runs - 2] || 1.96) * Math.sqrt(squares / (runs - 1) / runs)) };
    }
    if (one[4] === null || other[4] === null) return { value, reach: null };
    const relative = (of) => (of[5] - of[4]) / 2 / of[3];
    return { value, reach: Math.exp(Math.hypot(relative(one), relative(other))) };
  };
  const line = (name, { value, reach }, at) => {
    const digits = (number) => number.toPrecision(3);
    const low = value / (reach || 1), high = value * (reach || 1);
    const apart = reach !== null && (low > 1 || high < 1);
    const row = document.createElement('div');
    row.className = 'ratio';
    row.innerHTML = `<span></span><svg preserveAspectRatio=none viewBox="0 0 1000 24"><path class=grid d="M${at(1)} 0V24"
      stroke-width=3 /><g class="${apart ? (value > 1 ? 's0' : 's1') : 's6'}"><path style="stroke:var(--c);stroke-width:3"
      d="M${at(low)} 12H${at(high)}"/><rect x="${at(value) - 4}" y=6 width=8 height=12 style="fill:var(--c)" /></g></svg><span></span>`;
    row.firstChild.textContent = name;
    row.lastChild.textContent = '×' + digits(value) + (reach === null ? '' : ` (${digits(low)} … ${digits(high)})`);
    return row;
  };
  const show = () => {
    const study = studies[form.study.value];
    const [metric, one, other] = ['metric', 'one', 'other'].map((name) => +form[name].value);
    const of = (scheme) => new Map(
      study.values.filter((it) => it[0] === metric && it[1] === scheme).map((it) => [it[2], it]));
    const others = of(other), found = [];
    for (const [cell, value] of of(one)) {
      const beside = others.get(cell);
      if (beside && beside[3] !== 0 && value[3] / beside[3] > 0) found.push([study.cells[cell], ratio(value, beside)]);
    }
    // Intervals count up to a factor of 3: the intervals of two runs would dwarf everything else.
    const ends = found.map(([, it]) => Math.abs(Math.log(it.value)) + Math.min(Math.log(it.reach || 1), Math.log(3)));
    const reach = Math.max(Math.log(1.25), ...ends);
    const at = (value) => Math.min(1000, Math.max(0, 500 + 490 * Math.log(value) / reach)).toFixed(0);
    const rows = found.map(([name, it]) => line(name || 'all', it, at));
    const axis = document.createElement('p');
    axis.className = 'sub';
    axis.textContent = found.length
      ? `${study.schemes[one]} over ${study.schemes[other]}; the line in the middle is 1, the ends are ×${Math.exp(-reach).toPrecision(2)} and ×${Math.exp(reach).toPrecision(2)}, and grey is what the interval cannot tell from 1`
      : 'There is no cell in which both have this value.';
    out.replaceChildren(axis, ...rows);
  };
  const choose = () => {
    const study = studies[form.study.value];
    fill(form.metric, study.metrics.map((name, at) => name + (study.units[at] ? ` (${study.units[at]})` : '')), 0);
    fill(form.one, study.schemes, 1);
    fill(form.other, study.schemes, 0);
    show();
  };
  fill(form.study, studies.map((study) => study.name), 0);
  form.study.onchange = choose;
  form.metric.onchange = form.one.onchange = form.other.onchange = show;
  choose();
})();
