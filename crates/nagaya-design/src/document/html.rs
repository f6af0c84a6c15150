//! A design as one self-contained HTML page: no script, no font, no network.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html::push_html};

use super::{describe::anchor, diagram, markdown::markdown};
use crate::design::Design;

/// The document of a design as one self-contained HTML page.
pub fn html(design: &Design) -> String {
    let source = markdown(design);
    let title = diagram::escape(&design.name);
    let (body, contents) = body(design, &source);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}: key design</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<nav>\n{contents}</nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

const LEGEND: &str = "<p class=\"legend\"><i class=\"key\"></i> wall in the key <i class=\"attribute\"></i> in an attribute \
                      <i class=\"public\"></i> public <i class=\"system\"></i> operators only; hollow: sparse index</p>";

/// The page's main part, with anchors for headings, and its table of contents.
fn body(design: &Design, source: &str) -> (String, String) {
    let mut events = Vec::new();
    let mut contents = String::new();
    let mut heading: Option<String> = None;
    let mut in_diagram = false;
    for event in Parser::new_ext(source, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "mermaid" => {
                in_diagram = true;
            }
            Event::End(TagEnd::CodeBlock) if in_diagram => {
                in_diagram = false;
                events.push(Event::Html(CowStr::from(format!(
                    "<div class=\"diagram\">\n{}</div>\n{LEGEND}\n",
                    diagram::svg(design)
                ))));
            }
            _ if in_diagram => {}
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(level)) => {
                let text = heading.take().unwrap_or_default();
                let (anchor, shown) = (anchor(&text), diagram::escape(&text));
                let number = level as usize;
                if number > 1 {
                    contents += &format!("<a class=\"h{number}\" href=\"#{anchor}\">{shown}</a>\n");
                }
                events.push(Event::Html(CowStr::from(format!("<h{number} id=\"{anchor}\">{shown}</h{number}>\n"))));
            }
            Event::Text(text) | Event::Code(text) if heading.is_some() => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            // A wide table scrolls instead of widening the page.
            Event::Start(Tag::Table(alignment)) => {
                events.push(Event::Html(CowStr::Borrowed("<div class=\"wide\">")));
                events.push(Event::Start(Tag::Table(alignment)));
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                events.push(Event::Html(CowStr::Borrowed("</div>\n")));
            }
            // The only markup in the source is the line break in table cells.
            Event::InlineHtml(html) if &*html != "<br>" => events.push(Event::Text(html)),
            Event::Html(html) => events.push(Event::Text(html)),
            other => events.push(other),
        }
    }
    let mut out = String::new();
    push_html(&mut out, events.into_iter());
    (out, contents)
}

const STYLE: &str = "\
:root { color-scheme: light dark; --ink: #1d2129; --paper: #fff; --soft: #f3f4f7; --line: #d9dce3; --link: #1f5fbf; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6eb; --paper: #16181d; --soft: #20242b; --line: #363b45; --link: #8ab4f8; }
}
* { box-sizing: border-box; }
body { margin: 0; display: grid; grid-template-columns: 16rem minmax(0, 1fr); color: var(--ink); background: var(--paper);
  font: 15px/1.55 system-ui, 'Hiragino Sans', 'Noto Sans JP', sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.2rem; border-right: 1px solid var(--line); }
nav a { display: block; color: inherit; text-decoration: none; padding: .1rem 0; overflow-wrap: anywhere; }
nav a.h2 { font-weight: 600; margin-top: .7rem; }
nav a.h3 { padding-left: .8rem; font-size: .92em; opacity: .85; }
nav a:hover { color: var(--link); }
main { padding: 1.5rem 2.5rem 6rem; max-width: 78rem; }
a { color: var(--link); }
h2 { margin-top: 2.6rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
h3 { margin-top: 2.2rem; }
.wide, .diagram { overflow-x: auto; }
table { border-collapse: collapse; margin: .6rem 0; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { background: var(--soft); }
code { font: .88em ui-monospace, 'SF Mono', Menlo, Consolas, monospace; background: var(--soft); padding: .1em .3em; border-radius: 3px; }
pre { background: var(--soft); padding: .8rem 1rem; overflow: auto; border-radius: 6px; }
pre code { padding: 0; }
svg.lanes { display: block; margin: 0 0 1.2rem; font: 13px ui-monospace, Menlo, Consolas, monospace; }
svg.lanes text { fill: var(--ink); }
svg.lanes .title { font-weight: 700; font-size: 15px; }
svg.lanes .head { text-anchor: middle; opacity: .7; }
svg.lanes .name { paint-order: stroke; stroke: var(--paper); stroke-width: 6px; }
svg.lanes line { stroke: var(--line); }
circle { stroke-width: 2.5; }
circle.key, i.key { fill: #2f7d4f; stroke: #2f7d4f; background: #2f7d4f; }
circle.attribute, i.attribute { fill: #b7791f; stroke: #b7791f; background: #b7791f; }
circle.public, i.public { fill: #2b6cb0; stroke: #2b6cb0; background: #2b6cb0; }
circle.system, i.system { fill: #9b2c4a; stroke: #9b2c4a; background: #9b2c4a; }
circle.sparse { fill: var(--paper); }
.legend i { display: inline-block; width: .8em; height: .8em; border-radius: 50%; margin: 0 .2em 0 .9em; }
@media (max-width: 60rem) { body { display: block; } nav { position: static; height: auto; border: 0; } main { padding: 1rem; } }
@media print { nav { display: none; } body { display: block; } }
";
