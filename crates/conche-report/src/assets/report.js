'use strict';
// Interactive parts of the page: theme, tooltips, selection of a cell, saving of plots, the runs of
// a cell, and the comparison of two schemes.
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

  // Distributions and timelines: shows the drawing of the selected cell and exchange.
  document.querySelectorAll('.picked').forEach((all) => {
    const selects = [...all.querySelectorAll('select')];
    const show = () => all.querySelectorAll('figure').forEach((it) => {
      it.hidden = it.dataset.at !== selects.map((select) => select.value).join('/');
    });
    selects.forEach((select) => { select.onchange = show; });
    if (selects.length) show();
  });

  const space = new DOMParser().parseFromString('<svg/>', 'text/html').querySelector('svg').namespaceURI;
  const drawn = (tag, attributes, text) => {
    const element = document.createElementNS(space, tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    if (text) element.textContent = text;
    return element;
  };

  // Saving of plots. An SVG file has the plot's colours as attributes, which all programs read.
  const save = (figure, kind, type, text) => {
    const link = document.createElement('a');
    const name = figure.querySelector('figcaption').textContent.toLowerCase().replace(/[^a-z0-9]+/g, '-');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = `${name.replace(/^-|-$/g, '').slice(0, 80) || 'plot'}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const PAINT = ['fill', 'stroke', 'stroke-width', 'fill-opacity', 'stroke-opacity', 'stroke-dasharray', 'font-weight'];
  const painted = (svg) => {
    const copy = svg.cloneNode(true), own = [...svg.querySelectorAll('*')];
    copy.querySelectorAll('*').forEach((element, place) => {
      const style = getComputedStyle(own[place]);
      if (element.matches('path, rect, circle, text, tspan')) {
        PAINT.forEach((name) => element.setAttribute(name, style.getPropertyValue(name)));
      }
      ['class', 'style'].forEach((name) => element.removeAttribute(name));
    });
    ['class', 'style', 'role'].forEach((name) => copy.removeAttribute(name));
    copy.setAttribute('font-size', getComputedStyle(svg).fontSize);
    return copy;
  };
  const as_svg = (figure) => {
    const style = getComputedStyle(figure), ink = getComputedStyle(document.body).color;
    const panels = [...figure.querySelectorAll('svg:not(.key)')];
    const columns = panels.length > 4 ? 3 : Math.ceil(Math.sqrt(panels.length));
    const wide = Math.max(...panels.map((svg) => svg.viewBox.baseVal.width));
    const width = Math.max(columns * (wide + 16) + 16, 360);
    const all = drawn('svg', { 'font-family': style.fontFamily, 'font-size': 12 });
    const paper = drawn('rect', { width: '100%', fill: style.backgroundColor });
    all.append(paper);
    const write = (text, x, y, more) => all.append(drawn('text', { x, y, fill: ink, ...more }, text));
    const measure = document.createElement('canvas').getContext('2d');
    const length = (text, font) => {
      measure.font = `${font} ${style.fontFamily}`;
      return measure.measureText(text).width;
    };
    let y = 8, line = '';
    figure.querySelector('figcaption').textContent.split(' ').forEach((word) => {
      if (line && length(`${line} ${word}`, 'bold 14px') > width - 24) {
        write(line, 12, y += 18, { 'font-weight': 'bold', 'font-size': 14 });
        line = word;
      } else line = line ? `${line} ${word}` : word;
    });
    write(line, 12, y += 18, { 'font-weight': 'bold', 'font-size': 14 });
    let x = 12;
    const items = [...figure.querySelectorAll('.legend li')];
    if (items.length) y += 22;
    items.forEach((item) => {
      const room = 20 + length(item.textContent, '12px') + 14;
      if (x > 12 && x + room > width) [x, y] = [12, y + 18];
      const key = item.querySelector('svg');
      if (key) {
        const copy = painted(key);
        Object.entries({ x, y: y - 10, width: 12, height: 12 }).forEach((it) => copy.setAttribute(...it));
        all.append(copy);
      }
      write(item.textContent, x + 18, y);
      x += room;
    });
    y += 12;
    for (let place = 0; place < panels.length; place += columns) {
      const row = panels.slice(place, place + columns);
      const titles = row.map((svg) => svg.parentElement.querySelector('h5'));
      if (titles.some((it) => it)) y += 16;
      row.forEach((svg, column) => {
        const { width: own, height } = svg.viewBox.baseVal, left = 12 + column * (wide + 16);
        if (titles[column]) write(titles[column].textContent, left, y - 2, { 'font-weight': 'bold' });
        const copy = painted(svg);
        Object.entries({ x: left, y, width: own, height }).forEach((it) => copy.setAttribute(...it));
        all.append(copy);
      });
      y += Math.max(...row.map((svg) => svg.viewBox.baseVal.height)) + 10;
    }
    paper.setAttribute('height', y);
    Object.entries({ viewBox: `0 0 ${width} ${y}`, width, height: y }).forEach((it) => all.setAttribute(...it));
    return new XMLSerializer().serializeToString(all);
  };
  document.querySelectorAll('figure.chart').forEach((figure) => {
    const line = document.createElement('p');
    line.className = 'save';
    const button = (kind, title, press) => {
      const it = document.createElement('button');
      Object.assign(it, { type: 'button', textContent: kind.toUpperCase(), title, onclick: press });
      line.append(it);
    };
    button('svg', 'save the plot as a drawing', () => save(figure, 'svg', 'image/svg+xml', as_svg(figure)));
    const data = figure.querySelector('template');
    button('csv', 'save the values as a table', () => save(figure, 'csv', 'text/csv', data.content.textContent));
    figure.append(line);
  });

  // Comparison of controllers: the runs of the selected cell, one lane per controller.
  const grids = $('fields') ? JSON.parse($('fields').textContent) : [];
  const close = () => { $('field').hidden = true; };
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
    // As everywhere on the page: cells whose interval includes 1 come last.
    const far = ({ value, reach }) => Math.abs(Math.log(value)) - (reach === null ? 0 : Math.log(reach));
    const size = ({ value }) => Math.abs(Math.log(value));
    found.sort(([, a], [, b]) => (far(b) > 0) - (far(a) > 0) || size(b) - size(a));
    const ends = found.map(([, it]) => Math.abs(Math.log(it.value)) + Math.log(it.reach || 1));
    const reach = Math.max(Math.log(1.25), ...ends);
    const at = (value) => Math.min(1000, Math.max(0, 500 + 490 * Math.log(value) / reach)).toFixed(0);
    const rows = found.map(([name, it]) => line(name || 'all', it, at));
    if (found.length > 1 && rows[0]) rows[0].classList.add('first');
    const axis = document.createElement('p');
    axis.className = 'sub';
    axis.textContent = found.length
      ? `${study.schemes[one]} over ${study.schemes[other]}; the line in the middle is 1, the ends are ×${Math.exp(-reach).toPrecision(2)} and ×${Math.exp(reach).toPrecision(2)}, and intervals that include 1 are grey`
      : 'There is no cell in which both have this value.';
    out.replaceChildren(axis, ...rows);
  };
  const choose = () => {
    const study = studies[form.study.value];
    fill(form.metric, study.metrics.map((name, at) => name + (study.units[at] ? ` (${study.units[at]})` : '')), study.chosen[0]);
    fill(form.one, study.schemes, study.chosen[1]);
    fill(form.other, study.schemes, study.chosen[2]);
    show();
  };
  fill(form.study, studies.map((study) => study.name), 0);
  form.study.onchange = choose;
  form.metric.onchange = form.one.onchange = form.other.onchange = show;
  choose();
})();
