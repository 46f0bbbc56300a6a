// What a page can do besides being read: search, filter, sort, and say where a number comes from. It works on the
// tables as they stand, and inserts text only as text.
'use strict';

const make = (name, attributes, text) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
};

// ---- search in every table that is marked so

const tables = [...document.querySelectorAll('table.searchable')];
const lines = tables.flatMap(table => [...table.tBodies[0].rows].map(row => ({
  row, table, text: (table.caption.textContent + ' ' + row.textContent).toLowerCase(),
})));

const bar = make('form', {class: 'tools', role: 'search', 'aria-label': 'Cases and tensors'});
const box = make('input', {type: 'search', name: 'words', placeholder: 'Search cases and tensors', 'aria-label': 'Search cases and tensors'});
const only = make('select', {name: 'outcome', 'aria-label': 'Outcome'});
for (const [value, text] of [['', 'every outcome'], ['bad', 'not passed'], ['good', 'passed']])
  only.append(make('option', {value}, text));
const found = make('output', {name: 'found', 'aria-live': 'polite'});
bar.append(box, only, found);
document.querySelector('nav').append(bar);
bar.addEventListener('submit', event => event.preventDefault());

const wasOpen = new Map([...document.querySelectorAll('details')].map(one => [one, one.open]));
const search = () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean), kind = only.value;
  const asked = words.length > 0 || kind !== '';
  const hits = new Map();
  let count = 0;
  for (const {row, table, text} of lines) {
    const bad = row.classList.contains('why') || row.querySelector('.bad') !== null;
    const hit = words.every(word => text.includes(word)) && (kind === '' || bad === (kind === 'bad'));
    row.hidden = !hit;
    if (hit) {
      ++count;
      hits.set(table, true);
    }
  }
  for (const table of tables) {
    table.closest('.scroll').hidden = asked && !hits.has(table);
    const group = table.closest('details');
    if (!group) continue;
    group.hidden = asked && !hits.has(table);
    group.open = asked ? hits.has(table) && hits.size < 40 : wasOpen.get(group);
  }
  found.textContent = asked ? `${count} of ${lines.length}` : '';
};
box.addEventListener('input', search);
only.addEventListener('change', search);
document.addEventListener('keydown', event => {
  if (event.key === '/' && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) {
    event.preventDefault();
    box.focus();
  }
});

// ---- a click on a head sorts

const keyOf = (row, column) => {
  const cell = row.cells[column], text = cell ? cell.textContent.trim() : '';
  const number = parseFloat(text.replace(/[,<\s]/g, ''));
  return Number.isNaN(number) ? text : number;
};
for (const table of document.querySelectorAll('main table:not(.map)')) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (head.textContent === '') return;
    const button = make('button', {type: 'button', class: 'sort'}, head.textContent);
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') !== 'descending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...table.tBodies[0].rows].filter(row => !row.classList.contains('why'));
      const reason = new Map(rows.map(row => [row, row.nextElementSibling]));
      rows.sort((a, b) => {
        const x = keyOf(a, column), y = keyOf(b, column);
        const order = typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === 'number' ? -1 : 1;
        return down ? -order : order;
      });
      for (const row of rows) {
        const why = reason.get(row);
        table.tBodies[0].append(row);
        if (why && why.classList.contains('why')) table.tBodies[0].append(why);
      }
    });
  });
}

// ---- where a number comes from

const sources = [...document.querySelectorAll('#sources tbody th')].map(one => one.textContent);
const note = make('p', {class: 'whence', role: 'status'});
note.hidden = true;
document.body.append(note);
document.querySelector('main').addEventListener('click', event => {
  const cell = event.target.closest('[data-at], [data-used], td[title]');
  if (!cell) {
    note.hidden = true;
    return;
  }
  const from = cell.closest('[data-from]');
  const path = cell.dataset.used || (from ? from.dataset.from + '/' + (cell.dataset.at || '') : '');
  const [source, ...rest] = path.split('/');
  const place = path === '' ? '' : `${sources[Number(source)]} at /${rest.join('/')}`;
  note.textContent = [cell.title, place].filter(Boolean).join(', ');
  note.hidden = note.textContent === '';
});
