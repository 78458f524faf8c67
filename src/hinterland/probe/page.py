"""A measured machine as one HTML page that needs no other file: figures, curves, tables, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from ..machine.model import Machine, RowPoint
from ..runtime.units import format_bytes, format_rate
from .chart import Chart, ChartLine
from .report import Section, format_count, format_seconds, sections

_COLOURS = {"managed": 1, "pinned": 2, "pageable": 3}

_STYLE = """
:root{color-scheme:light dark;--page:#f7f7f5;--card:#fff;--ink:#1c1f23;--soft:#5d646d;--rule:#e2e3e0;
--c1:#0b6bcb;--c2:#c4520a;--c3:#0b7f5f;--c4:#8147b0;--ceiling:#8a8f96}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--card:#1d2125;--ink:#e9ebed;--soft:#a0a7af;--rule:#31363c;
--c1:#5aa9f5;--c2:#f09a56;--c3:#45c39b;--c4:#c08ff0;--ceiling:#8d949c}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1060px;margin:0 auto;padding:36px 20px 60px}
h1{font-size:26px;line-height:1.2;margin:0 0 4px}h2{font-size:18px;margin:36px 0 12px}h3{font-size:14px;margin:0 0 6px}
.soft{color:var(--soft)}p{margin:4px 0;max-width:72ch}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(190px,1fr));gap:12px;margin-top:22px}
.card,figure,.table{background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:14px 16px;margin:0}
.card b{display:block;font-size:22px;font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(400px,100%),1fr));gap:14px}
figure{max-width:560px}
.tables{columns:2 400px;column-gap:14px}.table{break-inside:avoid;margin-bottom:14px;overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
td,th{padding:4px 8px 4px 0;border-top:1px solid var(--rule);text-align:right;font-weight:400}
th{color:var(--soft)}td:first-child,th:first-child{text-align:left}tr:first-child>*{border-top:0}
figure>svg{width:100%;height:auto;display:block}.sample{width:26px;height:10px;margin-right:6px}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px;color:var(--soft);margin-bottom:4px}
text{fill:var(--soft);font-size:11.5px;font-family:inherit}text.title{font-size:12px}
line.grid{stroke:var(--rule)}line.ceiling{stroke:var(--ceiling);stroke-dasharray:2 3;stroke-width:1.5}
polyline{fill:none;stroke-width:2.2;stroke-linejoin:round}.dashed{stroke-dasharray:6 4}
polyline.c1{stroke:var(--c1)}polyline.c2{stroke:var(--c2)}polyline.c3{stroke:var(--c3)}polyline.c4{stroke:var(--c4)}
circle.c1{fill:var(--c1)}circle.c2{fill:var(--c2)}circle.c3{fill:var(--c3)}circle.c4{fill:var(--c4)}
"""


def page(machine: Machine) -> str:
    """The page as text."""
    name = machine.gpus[0].name if machine.gpus else machine.cpu.model
    count = f"{len(machine.gpus)} x " if len(machine.gpus) > 1 else ""
    heads = "".join(
        f'<div class="card"><span class="soft">{escape(k)}</span><b>{escape(v)}</b></div>' for k, v in _heads(machine)
    )
    figures = "".join(
        f"<figure><h3>{escape(chart.title)}</h3>{chart.legend()}{chart.svg()}</figure>" for chart in charts(machine)
    )
    left_out, doubts = (
        "".join(f"<p>{escape(sentence)}</p>" for sentence in said) or "<p>Nothing.</p>"
        for said in (machine.left_out, machine.doubts)
    )
    tables = "".join(_table(section) for section in sections(machine))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Memory of {escape(name)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>{count}{escape(name)}</h1>"
        f'<p class="soft">What this machine&rsquo;s memories give. hinterland probe, {escape(machine.date)}</p>'
        f'<div class="cards">{heads}</div>'
        f'<h2>Curves</h2><div class="charts">{figures}</div>'
        f"<h2>Left out</h2>{left_out}<h2>In doubt</h2>{doubts}"
        f'<h2>Every figure</h2><div class="tables">{tables}</div>'
        "</main></body></html>\n"
    )


def _heads(machine: Machine) -> Iterator[tuple[str, str]]:
    if machine.link:
        yield "Link, host to GPU", format_rate(machine.link.h2d)
        yield "Kernel reading host memory", format_rate(machine.link.zero_copy)
        yield "One dependent read", format_seconds(machine.link.latency)
    if machine.peers:
        yield "Peer GPU in sequence", format_rate(min(p.bandwidth for p in machine.peers))
    yield "CPU reading memory", format_rate(machine.cpu.read)
    yield "CPU, random 64-byte rows", f"{machine.cpu.random_rows / 1e6:.1f} M/s"
    if machine.disk:
        yield "Disk in sequence", format_rate(machine.disk.sequential)
        yield "Disk, random 4 KiB", f"{max(machine.disk.random4k.values()):,.0f} /s"


def charts(machine: Machine) -> Iterator[Chart]:
    """The curves of a machine."""
    link = machine.link
    ceiling = [(f"copy engine {format_rate(link.h2d)}", link.h2d)] if link else []
    yield from _row_charts("Random rows, host memory to GPU", machine.rows, ceiling)
    if link:
        sweep = [p for p in link.sequential if p.shift_bytes == 0 and p.blocks <= machine.gpus[0].sms]
        lines = [
            ChartLine(f"{access}-byte loads", [(p.blocks, p.bandwidth) for p in sweep if p.access_bytes == access], colour)
            for colour, access in enumerate(sorted({p.access_bytes for p in sweep}), start=1)
        ]
        yield Chart("Threads that saturate the link", "blocks of 1024 threads", "GB/s", str, _gigabytes, lines, ceiling)
    cpu = machine.cpu
    yield from _row_charts("Random rows, CPU memory", cpu.rows, [(f"reading in sequence {format_rate(cpu.read)}", cpu.read)])
    if machine.disk:
        line = ChartLine("4-KiB reads", sorted(machine.disk.random4k.items()), 4)
        yield Chart("Disk, random reads", "reads at a time", "reads/s", str, format_count, [line])


def _row_charts(title: str, points: tuple[RowPoint, ...], ceilings: list[tuple[str, float]]) -> Iterator[Chart]:
    rates = [rate for p in points for rate in (p.random, p.sorted)] + [rate for _, rate in ceilings]
    for size in sorted({p.table_bytes for p in points}):
        here = [p for p in points if p.table_bytes == size]
        lines = []
        for mapping in dict.fromkeys(p.mapping for p in here):
            mine = [p for p in here if p.mapping == mapping]
            colour = _COLOURS.get(mapping, 4)
            lines.append(ChartLine(f"{mapping}, random", [(p.row_bytes, p.random) for p in mine], colour))
            lines.append(ChartLine(f"{mapping}, sorted", [(p.row_bytes, p.sorted) for p in mine], colour, dashed=True))
        name = f"{title}, {format_bytes(size)} table"
        yield Chart(name, "bytes a row", "GB/s", str, _gigabytes, lines, ceilings, (min(rates), max(rates)))


def _gigabytes(rate: float) -> str:
    return f"{rate / 1e9:.3g}"


def _unbroken(cell: str) -> str:
    """A figure stays with its unit."""
    return cell.replace(" ", "\u00a0") if len(cell) < 12 else cell


def _table(section: Section) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in section.columns)
    rows = [f"<tr>{head}</tr>"] if any(section.columns) else []
    rows += ["<tr>" + "".join(f"<td>{escape(_unbroken(cell))}</td>" for cell in row) + "</tr>" for row in section.rows]
    return f'<div class="table"><h3>{escape(section.title)}</h3><table>{"".join(rows)}</table></div>'
