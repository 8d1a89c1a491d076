"use strict";
{
  const data = JSON.parse(document.getElementById("data").textContent);
  const rates = (rate) => {
    if (rate >= 0.0001 || rate === 0) return `${(100 * rate).toFixed(2)}%`;
    const [digits, power] = (100 * rate).toExponential(1).split("e");
    return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}%`;
  };
  const bytes = (size) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let value = size;
    while (value >= 1024 && units.length > 1) {
      value /= 1024;
      units.shift();
    }
    if (units[0] === "B") return `${counts(size)} B`;
    const tenths = value * 10;
    const isTie = tenths % 1 === 0.5 && Math.floor(tenths) % 2 === 0;
    return `${isTie ? (Math.floor(tenths) / 10).toFixed(1) : value.toFixed(1)} ${units[0]}`;
  };
  const counts = (count) => count.toLocaleString("en-US");
  const estimates = (value) => {
    if (value === -1) return "full";
    const up = Math.round(value);
    return `~${counts(value % 1 === 0.5 && up % 2 ? up - 1 : up)}`;
  };
  const asText = {
    text: (index) => data.texts[index],
    long: (index) => data.texts[index],
    path: (index) => {
      const path = data.texts[index];
      return path.startsWith(data.folder) ? path.slice(data.folder.length) : path;
    },
    list: (indexes) => indexes.map((index) => data.texts[index]).join(", "),
    count: counts,
    estimate: estimates,
    bytes,
    rate: rates,
  };
  const written = (value, kind) => (value === null ? "" : asText[kind](value));

  const element = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const content = (value, kind) => {
    const text = written(value, kind);
    return ["text", "long", "path"].includes(kind) ? element("bdi", { textContent: text }) : text;
  };

  class Table {
    constructor(box) {
      this.letter = box.dataset.table;
      Object.assign(this, data.tables[this.letter]);
      this.shown = data.shown;
      this.order = this.rows.map((_, index) => index);
      this.open = new Set();
      this.texts = [];
      this.body = box.querySelector("tbody");
      this.more = box.querySelector(".more");
      this.count = box.querySelector("output");
      this.total = this.count.textContent;
      this.find = box.querySelector("input");
      this.main = this.heads.flatMap(([, , isDetail], index) => (isDetail ? [] : [index]));
      this.details = this.heads.flatMap(([, , isDetail], index) => (isDetail ? [index] : []));
      this.find.closest("label").hidden = this.rows.length <= 5;
      this.find.addEventListener("input", () => this.draw(data.shown));
      this.more.addEventListener("click", () => this.draw(this.shown + 200));
      this.body.addEventListener("click", (event) => this.toggle(event));
      box.querySelectorAll("th").forEach((cell, index) => {
        const button = element("button", { type: "button", textContent: cell.textContent });
        button.addEventListener("click", () => this.sort(cell, this.main[index]));
        cell.replaceChildren(button);
      });
      this.more.hidden = this.rows.length <= this.shown;
      for (const row of this.body.rows) this.dress(row);
    }

    dress(row) {
      if (!this.details.length) return;
      row.classList.add("opens");
      row.tabIndex = 0;
      row.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && event.target === row) this.toggle(event);
      });
    }

    sort(cell, column) {
      const isText = ["text", "long", "path", "list"].includes(this.heads[column][1]);
      const was = cell.getAttribute("aria-sort");
      const isDown = was ? was === "ascending" : !isText;
      for (const other of cell.parentNode.cells) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      const key = (index) => {
        const value = this.rows[index][column];
        if (value === null) return null;
        return isText ? written(value, this.heads[column][1]) : value === -1 ? Infinity : value;
      };
      const collator = new Intl.Collator("en", { numeric: true });
      this.order.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === null || y === null) return (x === null) - (y === null) || a - b;
        const compared = isText ? collator.compare(x, y) : x - y;
        return (isDown ? -compared : compared) || a - b;
      });
      this.draw(data.shown);
    }

    text(index) {
      const cells = this.rows[index].map((value, at) => written(value, this.heads[at][1]));
      return cells.join("\n").toLowerCase();
    }

    matches(index, words) {
      if (!words.length) return true;
      const text = (this.texts[index] ??= this.text(index));
      return words.every((word) => text.includes(word));
    }

    draw(shown) {
      this.shown = shown;
      const words = this.find.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = this.order.filter((index) => this.matches(index, words));
      this.body.replaceChildren(...found.slice(0, shown).flatMap((index) => this.row(index)));
      this.more.hidden = found.length <= shown;
      this.count.textContent = words.length ? `${counts(found.length)} of ${this.total}` : this.total;
    }

    row(index) {
      const values = this.rows[index];
      const cells = this.main.map((at) => {
        const [, kind] = this.heads[at];
        return element("td", { className: kind }, content(values[at], kind));
      });
      const row = element("tr", { id: `${this.letter}${index}` }, ...cells);
      this.dress(row);
      return this.open.has(index) ? [row, this.detail(index)] : [row];
    }

    detail(index) {
      const values = this.rows[index];
      const pairs = this.details
        .filter((at) => values[at] !== null)
        .flatMap((at) => {
          const [title, kind] = this.heads[at];
          return [element("dt", { textContent: title }), element("dd", {}, content(values[at], kind))];
        });
      const list = element("dl", {}, ...pairs);
      return element("tr", { className: "detail" }, element("td", { colSpan: this.main.length }, list));
    }

    toggle(event) {
      const row = event.target.closest("tr.opens");
      if (!row || String(document.getSelection())) return;
      const index = Number(row.id.slice(1));
      if (this.open.delete(index)) row.nextElementSibling.remove();
      else row.after(...(this.open.add(index), [this.detail(index)]));
    }

    reveal(index) {
      if (!(index < this.rows.length)) return;
      this.open.add(index);
      this.find.value = "";
      this.draw(Math.max(data.shown, this.order.indexOf(index) + 1));
      const row = document.getElementById(`${this.letter}${index}`);
      for (const other of document.querySelectorAll("tr.found")) other.classList.remove("found");
      row.classList.add("found");
      row.scrollIntoView({ block: "center" });
    }
  }

  const tables = {};
  for (const box of document.querySelectorAll("[data-table]")) tables[box.dataset.table] = new Table(box);

  const follow = () => {
    const [, letter, number] = /^#([a-z])(\d+)$/.exec(location.hash) ?? [];
    tables[letter]?.reveal(Number(number));
  };
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) follow();
  });
  follow();
}
