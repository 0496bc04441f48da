// Places of nodes: a column for each number of hops from the servers, the servers on the right. The
// same network always has the same picture.

/// Groups of more nodes are dots, and small ones.
const DOTS = 60, TINY_DOTS = 600;
const CIRCLE = { cell: 27, radius: 10 }, DOT = { cell: 12, radius: 4 }, TINY = { cell: 8, radius: 2.8 };
/// Of a name in the picture; the whole name is in the title of its node.
const LETTERS = 20;
const HEADING = 18, MARGIN = 26, GAP = 24;

/// Returns the hops of each node to the nearest server, over links in either direction.
export const hops = ({ nodes, links }) => {
  const neighbours = nodes.map(() => []);
  for (const { from, to } of links) {
    neighbours[from].push(to);
    neighbours[to].push(from);
  }
  const found = nodes.map(() => -1);
  const of_role = (role) => nodes.flatMap((it, at) => it.role === role ? [at] : []);
  let reached = of_role('server');
  if (!reached.length) reached = of_role('both');
  if (!reached.length) {
    const degrees = neighbours.map((it) => it.length);
    reached = [degrees.indexOf(Math.max(...degrees))];
  }
  for (let count = 0; reached.length; count++) {
    reached.forEach((node) => { found[node] = count; });
    reached = [...new Set(reached.flatMap((node) => neighbours[node]))].filter((node) => found[node] < 0);
  }
  const unreached = Math.max(...found) + 1;
  return found.map((count) => count < 0 ? unreached : count);
};

/// Returns the blocks of each column: nodes of one group, from left to right.
const columns_of = (network) => {
  const columns = [];
  hops(network).forEach((count, node) => {
    const blocks = columns[count] ??= new Map();
    const { group } = network.nodes[node];
    if (!blocks.has(group)) blocks.set(group, []);
    blocks.get(group).push(node);
  });
  return columns.filter(Boolean).reverse().map((blocks) => [...blocks].map(([group, nodes]) => ({
    group, nodes, style: nodes.length > TINY_DOTS ? TINY : nodes.length > DOTS ? DOT : CIRCLE,
  })));
};

const rows = (block, across) => Math.ceil(block.nodes.length / across);
const height_of = (blocks, across) =>
  blocks.reduce((sum, block) => sum + HEADING + rows(block, across) * block.style.cell + 10, 0);
const width_of = (blocks, across) =>
  Math.max(...blocks.map((it) => Math.min(across, it.nodes.length) * it.style.cell));

/// Returns the least number of nodes side by side with which a column fits into the height.
const across_of = (blocks, height) => {
  const most = Math.max(...blocks.map((it) => it.nodes.length));
  let across = 1;
  while (height_of(blocks, across) > height && across < most) across++;
  return across;
};

/// Returns `{ height, places: [{ x, y, radius, is_dot }], headings: [{ x, y, text }] }`.
export const laid_out = (network, width) => {
  const columns = columns_of(network);
  let height = network.nodes.length > 16 ? 360 : network.nodes.length > 8 ? 280 : 210, across, widths, spare;
  for (;;) {
    across = columns.map((blocks) => across_of(blocks, height - MARGIN));
    widths = columns.map((blocks, at) => width_of(blocks, across[at]));
    spare = width - 2 * MARGIN - widths.reduce((sum, it) => sum + it, 0);
    // A higher picture makes columns narrower.
    if (spare >= GAP * (columns.length - 1) || across.every((it) => it === 1) || height >= 3000) break;
    height += 80;
  }
  const gap = Math.max(0, columns.length > 1 ? spare / (columns.length - 1) : 0);
  const places = [], headings = [];
  let left = MARGIN + (columns.length > 1 ? 0 : spare / 2);
  columns.forEach((blocks, column) => {
    let top = (height - height_of(blocks, across[column])) / 2;
    for (const block of blocks) {
      const { cell, radius } = block.style;
      const wide = Math.min(across[column], block.nodes.length) * cell;
      const start = left + (widths[column] - wide) / 2;
      const is_single = block.nodes.length === 1;
      const text = is_single ? network.nodes[block.nodes[0]].name : `${block.group} × ${block.nodes.length}`;
      // Names of neighbouring columns do not meet.
      const is_below = column % 2 === 1 && is_single && blocks.length === 1;
      headings.push({
        x: start + wide / 2,
        y: top + (is_below ? HEADING + cell + 12 : HEADING - 5),
        text: text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text,
      });
      block.nodes.forEach((node, at) => {
        const [row, place] = [Math.floor(at / across[column]), at % across[column]];
        places[node] = {
          x: start + (place + 0.5) * cell,
          y: top + HEADING + (row + 0.5) * cell,
          radius,
          is_dot: block.style !== CIRCLE,
          label: is_single || block.style !== CIRCLE ? '' : network.nodes[node].name.match(/\d+(?=\]$)/)?.[0] ?? '',
        };
      });
      top += HEADING + rows(block, across[column]) * cell + 10;
    }
    left += widths[column] + gap;
  });
  return { height, places, headings };
};
