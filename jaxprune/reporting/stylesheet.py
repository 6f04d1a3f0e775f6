"""The style of a report: one column, light or dark as the reader's system is, and no font or image from elsewhere."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --faint: #667079; --paper: #fefefe; --rule: #dfe3e8; --wash: #f4f6f8; --meter: #0072b233; --bad: #b42318;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #e69f00;
  --series-4: #cc79a7; --series-5: #56b4e9; --series-6: #7a6a00;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ink: #e8eaed; --faint: #9aa3af; --paper: #15181c; --rule: #30363d; --wash: #1e2329; --meter: #4fa8e059; --bad: #ff8a7a;
    --series-0: #4fa8e0; --series-1: #ff8a3d; --series-2: #2cc79b; --series-3: #f2b632;
    --series-4: #e29bc2; --series-5: #8fd0f5; --series-6: #c4b13a;
  }
  figure image { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 61rem; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .75rem; text-wrap: balance; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 3rem 0 .5rem; padding-top: 1.25rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1rem; margin: 2rem 0 .5rem; }
p, ul { margin: .5rem 0; max-width: 48rem; }
.lead { font-size: 1.05rem; }
a { color: var(--series-0); }
.bad { color: var(--bad); }
figure { margin: 1.25rem 0; }
figure svg { display: block; height: auto; max-width: 54rem; }
figcaption { font-size: .85rem; color: var(--faint); max-width: 48rem; margin-top: .5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; width: 100%; }
.caption { font-size: .86rem; color: var(--faint); margin: 1.5rem 0 .5rem; }
th, td { padding: .32rem .45rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--rule); vertical-align: baseline; }
th:first-child { text-align: left; padding-left: 0; }
thead th { font-weight: 600; color: var(--faint); border-bottom: 2px solid var(--rule); }
tbody th { font-weight: 400; }
tr.first > * { border-top: 2px solid var(--rule); }
td small { color: var(--faint); margin-left: .35rem; }
.prose td { text-align: left; white-space: normal; }
.prose thead th { text-align: left; }
.meter {
  display: inline-block; min-width: 5.5rem; padding: 0 .35rem; border-radius: 3px; text-align: right;
  background: linear-gradient(to right, var(--meter) var(--share), transparent var(--share)); box-shadow: inset 0 0 0 1px var(--rule);
}
pre {
  background: var(--wash); border: 1px solid var(--rule); border-radius: 6px; padding: .75rem 1rem; font-size: .85rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; font-size: .88rem; margin: .75rem 0; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .75rem 0; }
summary { cursor: pointer; }
@media (max-width: 40rem) {
  body { padding: 1rem .9rem 3rem; }
  h1 { font-size: 1.35rem; }
  figure svg { min-width: 34rem; }
  dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .4rem; }
}
@media print {
  :root { color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  figure, tr, pre { break-inside: avoid; }
  h1, h2, h3, .caption { break-after: avoid; }
  h2 { margin-top: 1.5rem; }
  .scroll { overflow: visible; }
  figure svg { min-width: 0; max-height: 24cm; }
  table { font-size: 7.5pt; }
  th, td { padding: .2rem .3rem; }
  .meter { min-width: 4.5rem; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
