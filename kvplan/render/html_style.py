"""The page's style sheet, from the two palettes: system fonts, tabular figures, one column on a phone."""

from __future__ import annotations

from kvplan.render.palette import DARK, LIGHT, Theme

_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.5rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1rem;margin:2.25rem 0 .75rem;padding-bottom:.25rem;border-bottom:1px solid var(--line)}
h3{font-size:.9rem;margin:0 0 .25rem;font-weight:600}
p{margin:.25rem 0}
.quiet{color:var(--quiet)}
.verdict{margin:1rem 0;padding:.6rem .9rem;background:var(--panel);border-left:4px solid var(--line)}
.fits{border-color:var(--good)}.refused{border-color:var(--bad)}
.fits b{color:var(--good)}.refused b{color:var(--bad)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem;margin:1rem 0 0;padding:0}
.facts div{background:var(--panel);padding:.6rem .8rem;border-radius:4px}
dt{color:var(--quiet);font-size:.8rem}
dd{margin:0}
dd.value{font-size:1.3rem;font-weight:600;line-height:1.3}
dd.meaning{color:var(--quiet);font-size:.8rem}
figure{margin:0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:1.5rem}
.memory{max-width:34rem}
svg{display:block;width:100%;height:auto}
svg text{font-size:11px;fill:var(--text)}
svg text.ink{fill:var(--ink)}svg text.quiet{fill:var(--quiet)}svg text.strong{font-weight:600}
.frame{fill:none;stroke:var(--quiet);stroke-width:1;stroke-dasharray:3 2}
.edge{stroke:var(--bad);stroke-width:2}
.hatch{stroke:var(--page);stroke-opacity:.3;stroke-width:1.2}
.grid{stroke:var(--line);stroke-width:1}
.line{fill:none;stroke-width:2}
.key{list-style:none;margin:.5rem 0 0;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;font-size:.85rem}
.key li{display:flex;align-items:center;gap:.4rem}.key svg{width:36px;flex:none}
.swatch{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.45rem;vertical-align:-.05rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.875rem}
th,td{text-align:left;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--quiet);font-weight:500}
.number{text-align:right;white-space:nowrap}
details{margin-top:2.25rem}summary{cursor:pointer;font-weight:600}
pre{overflow-x:auto;background:var(--panel);padding:.75rem;font-size:.8rem;line-height:1.45}
ul.notes{padding-left:1.1rem;margin:.5rem 0}
footer{margin-top:2.5rem;color:var(--quiet);font-size:.8rem}
@media print{main{max-width:none;padding:0}details{display:none}}
"""


def style_sheet() -> str:
    """Return the style sheet: light, dark where the reader's system asks for it."""
    dark = f"@media screen and (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    return f":root{{color-scheme:light dark}}{_colours(LIGHT)}{dark}{_roles()}{_RULES}"


def _colours(theme: Theme) -> str:
    plain = {
        "page": theme.page, "panel": theme.panel, "text": theme.text, "quiet": theme.quiet, "line": theme.line,
        "good": theme.good, "bad": theme.bad, "ink": theme.ink,
    }  # fmt: skip
    plain |= {f"fill-{name}": colour for name, colour in theme.fills.items()}
    plain |= {f"curve-{index}": colour for index, colour in enumerate(theme.curves)}
    return f":root{{{''.join(f'--{name}:{colour};' for name, colour in plain.items())}}}"


def _roles() -> str:
    fills = "".join(f".fill-{name}{{fill:var(--fill-{name});background:var(--fill-{name})}}" for name in LIGHT.fills)
    lines = "".join(
        f".curve-{i}{{stroke:var(--curve-{i})}}.mark-{i}{{fill:var(--curve-{i})}}" for i in range(len(LIGHT.curves))
    )
    return fills + lines
