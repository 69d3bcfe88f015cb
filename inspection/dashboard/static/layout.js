// Where the components of a topology stand: in layers, each behind all that it receives from (after Sugiyama, Tagawa and
// Toda 1981). Pure: no elements, so it is the same wherever it is drawn.

// The layers of a graph, each an array of {id, real}. Edges that skip layers get a place in each of them (`real` false),
// so that they pass between the components and not through them.
//   names: all components. links: [{source, target}], at most one for each pair.
// Returns {layers, routes}, where routes maps "source target" to the ids on its way, both ends included.
export function layered(names, links) {
  const depth = depths(names, links);
  const layers = [];
  const place = (id, level, real) => (layers[level] ??= []).push({ id, real });
  for (const name of names) place(name, depth.get(name), true);
  const routes = new Map();
  const neighbours = new Map();
  const meet = (a, b) => {
    (neighbours.get(a) ?? neighbours.set(a, []).get(a)).push(b);
    (neighbours.get(b) ?? neighbours.set(b, []).get(b)).push(a);
  };
  for (const { source, target } of links) {
    const way = [source];
    for (let level = depth.get(source) + 1; level < depth.get(target); level++) {
      const id = `${source} ${target} ${level}`;
      place(id, level, false);
      way.push(id);
    }
    way.push(target);
    for (let i = 1; i < way.length; i++) meet(way[i - 1], way[i]);
    routes.set(`${source} ${target}`, way);
  }
  untangle(layers, neighbours);
  return { layers, routes };
}

// The longest way to each component from one that receives nothing. What leads back in a circle does not count.
function depths(names, links) {
  const from = new Map(names.map((name) => [name, []]));
  for (const { source, target } of links) from.get(target)?.push(source);
  const depth = new Map();
  const open = new Set();
  const find = (name) => {
    if (depth.has(name)) return depth.get(name);
    open.add(name);
    const before = from.get(name).filter((source) => from.has(source) && !open.has(source)).map(find);
    open.delete(name);
    const found = before.length ? Math.max(...before) + 1 : 0;
    depth.set(name, found);
    return found;
  };
  names.forEach(find);
  return depth;
}

// Puts each next to the middle of its neighbours in the layers beside, there and back, until little can change.
function untangle(layers, neighbours) {
  const position = new Map();
  const number = (layer) => layer.forEach((node, index) => position.set(node.id, index - (layer.length - 1) / 2));
  layers.forEach(number);
  for (let round = 0; round < 8; round++) {
    const order = round % 2 ? [...layers].reverse() : layers;
    for (const layer of order) {
      const middle = new Map(
        layer.map((node) => {
          const near = (neighbours.get(node.id) ?? []).map((id) => position.get(id));
          return [node.id, near.length ? near.reduce((a, b) => a + b) / near.length : position.get(node.id)];
        }),
      );
      layer.sort((a, b) => middle.get(a.id) - middle.get(b.id));
      number(layer);
    }
  }
}
