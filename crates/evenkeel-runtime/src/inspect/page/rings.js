// Rings: a bar of the hash space by owner, with moves under way, and the members.

import { element, number, setText } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8;
const WIDTH = 1000;

export class Rings {
  constructor() {
    this.root = document.getElementById("rings");
    // The colour of each member, so that it keeps it when others leave.
    this.colours = new Map();
    this.next = 0;
  }

  show(rings) {
    this.root.hidden = rings.length === 0;
    this.root.replaceChildren(...rings.map((ring) => this.ring(ring)));
  }

  colour(name) {
    if (!this.colours.has(name)) this.colours.set(name, this.next++ % COLOURS);
    return this.colours.get(name);
  }

  ring(ring) {
    const root = element("section");
    const head = element("header");
    const unowned = ring.unowned === null ? "no table yet" : `${percent(ring.unowned)} unowned`;
    const facts = element("p", ring.unowned ? "bad" : "quiet", `${number(ring.members.length)} members, ${number(ring.moving)} slices moving, ${unowned}`);
    head.append(element("h2", "", `Ring ${ring.name}`), facts);
    root.append(head, this.bar(ring), this.members(ring));
    return root;
  }

  bar(ring) {
    const bar = document.createElementNS(SVG, "svg");
    bar.setAttribute("viewBox", `0 0 ${WIDTH} 20`);
    bar.setAttribute("preserveAspectRatio", "none");
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", `The hash space of ring ${ring.name} by owner`);
    const name = (index) => (index === null ? "no member" : ring.members[index].name);
    for (const part of ring.parts) {
      const title = document.createElementNS(SVG, "title");
      title.textContent = `${percent(part.to - part.from)} ${part.stage}: ${name(part.owner)}${part.target === null ? "" : ` to ${name(part.target)}`}`;
      const main = this.rect(part, 0, 20, part.owner === null ? null : name(part.owner), part.stage);
      main.append(title);
      bar.append(main);
      // A move shows its target in the lower half.
      if (part.target !== null) bar.append(this.rect(part, 11, 9, name(part.target), part.stage));
    }
    return bar;
  }

  rect(part, y, height, owner, stage) {
    const rect = document.createElementNS(SVG, "rect");
    const attributes = { x: part.from * WIDTH, y, width: Math.max(0, (part.to - part.from) * WIDTH - 1), height };
    for (const [attribute, value] of Object.entries(attributes)) rect.setAttribute(attribute, value);
    rect.setAttribute("class", owner === null ? "unowned" : `member-${this.colour(owner)}`);
    rect.dataset.stage = stage;
    return rect;
  }

  members(ring) {
    const list = element("ul");
    for (const member of ring.members) {
      const row = element("li");
      const moves = [member.coming ? `${number(member.coming)} coming` : "", member.leaving ? `${number(member.leaving)} leaving` : ""];
      const facts = [percent(member.share), `${number(member.slices)} slices`, ...moves.filter((text) => text)];
      row.append(element("span", `swatch member-${this.colour(member.name)}`), element("span", member.here ? "here" : "", member.name), element("span", "quiet", facts.join(", ")));
      if (member.here) row.title = "a member of this process";
      list.append(row);
    }
    return list;
  }

  reset() {
    this.show([]);
    this.colours.clear();
    this.next = 0;
  }
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
