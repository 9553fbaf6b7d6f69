// Keeps the page up to date, and filters while one types. Without it the page works the same, by reloading.
'use strict';
(() => {
  const every = 3000, unseen = 30000, patience = 10000;
  const link = document.getElementById('link');
  let tag = null, turn = 0, timer = 0, since = Date.now();

  // Times are told from now on. The page has them in UTC.
  const units = [[86400, 'day'], [3600, 'hour'], [60, 'minute'], [1, 'second']];
  const words = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
  const relate = (root) => {
    for (const t of root.querySelectorAll('time[datetime]')) {
      const at = new Date(t.dateTime);
      const seconds = Math.round((at - Date.now()) / 1000);
      const [size, unit] = units.find(([size]) => Math.abs(seconds) >= size) || units[3];
      const n = Math.trunc(seconds / size), iso = at.toISOString();
      const absolute = iso.slice(0, 10) === new Date().toISOString().slice(0, 10) ? iso.slice(11, 19) : iso.slice(0, 16).replace('T', ' ');
      const span = () => new Intl.NumberFormat('en', { style: 'unit', unit, unitDisplay: 'long' }).format(Math.max(0, -n));
      t.title = iso.replace('T', ' ').replace(/\.\d+Z/, ' UTC');
      t.textContent = t.matches('.since') ? `for ${span()}, since ${absolute} UTC` : `${words.format(n, unit)} (${absolute} UTC)`;
    }
  };

  // morph makes one element like another, and keeps what stays: focus, selection and scrolling are in the elements.
  const key = (n) => n.nodeType === Node.ELEMENT_NODE && (n.dataset.key || n.id) || '';
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && key(a) === key(b);
  const morph = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const keyed = new Map([...old.children].filter(key).map((n) => [key(n), n]));
    let at = old.firstChild;
    for (const want of [...fresh.childNodes]) {
      const has = key(want) ? keyed.get(key(want)) : at && !key(at) && alike(at, want) ? at : null;
      if (has && alike(has, want)) {
        if (has === at) at = at.nextSibling;
        else old.insertBefore(has, at);
        morph(has, want);
      } else {
        old.insertBefore(document.importNode(want, true), at);
      }
    }
    while (at) { const next = at.nextSibling; at.remove(); at = next; }
  };

  const show = (fresh) => {
    const old = document.getElementById('live'), live = fresh.getElementById('live');
    if (!old || !live) return location.reload(); // gone, or signed out
    relate(live);
    const focused = document.activeElement;
    morph(old, live);
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
    document.title = fresh.title;
  };

  const tell = (text, lost) => {
    if (link.textContent !== text) link.textContent = text;
    link.classList.toggle('lost', Boolean(lost));
  };

  const clock = () => new Date(since).toLocaleTimeString('en-GB');

  // load gets the page at an address, and shows it unless another page was requested since.
  const load = (address) => {
    const mine = ++turn, request = new XMLHttpRequest();
    clearTimeout(timer);
    request.open('GET', address);
    request.responseType = 'document';
    request.timeout = patience;
    if (tag) request.setRequestHeader('If-None-Match', tag);
    request.onloadend = () => {
      if (mine !== turn) return;
      // A group that is not known (404, 503) may be so again: its page says that, and stays open.
      const answered = [200, 404, 503].includes(request.status) && request.response?.getElementById('live');
      if (answered) {
        tag = request.getResponseHeader('ETag');
        show(request.response);
      } else if (request.status === 401 || request.status === 404) {
        return location.reload();
      }
      if (answered || request.status === 304) {
        since = Date.now();
        relate(document);
        tell('Live');
      } else {
        tell(`Not up to date: as of ${clock()}`, true);
      }
      timer = setTimeout(poll, document.hidden ? unseen : every); // the title of a tab in the background counts, too
    };
    request.send();
  };
  const here = () => location.pathname + location.search;
  const poll = () => load(here());

  relate(document);
  if ('live' in document.body.dataset) {
    tell('Live');
    timer = setTimeout(poll, every);
    document.addEventListener('visibilitychange', poll);
  } else if (document.querySelector('form.signin') && !document.getElementById('denied')) {
    // A browser that is signed in sends no cookie when it comes by another site's link, but does so from here.
    const request = new XMLHttpRequest(), tried = Number(sessionStorage.getItem('tried'));
    request.open('GET', '/');
    request.onload = () => {
      if (request.status !== 200 || Date.now() - tried < patience) return;
      sessionStorage.setItem('tried', Date.now());
      location.replace(here() + location.hash);
    };
    request.send();
  }

  const filter = document.getElementById('filter');
  if (filter) {
    const input = filter.elements.q;
    let wait = 0;
    const go = () => {
      const query = new URLSearchParams(new FormData(filter));
      for (const [name, value] of [...query]) if (!value) query.delete(name);
      history.replaceState(null, '', query.size ? `/?${query}` : '/');
      tag = null;
      load(here());
    };
    filter.addEventListener('submit', (e) => { e.preventDefault(); go(); });
    input.addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(go, 150); });
    document.addEventListener('keydown', (e) => {
      if (e.key === '/' && !e.ctrlKey && !e.metaKey && !e.altKey && !(e.target instanceof HTMLInputElement)) { e.preventDefault(); input.focus(); }
    });
  }
})();
