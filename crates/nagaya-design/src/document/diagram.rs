//! Diagrams of a design: Mermaid for Markdown, SVG for the self-contained page.

use std::fmt::Write as _;

use crate::design::{Design, Table, Wall};

/// A flow chart: tables with their entities, indexes, references and projections.
pub(super) fn mermaid(design: &Design) -> String {
    let mut out = String::from("flowchart LR\n");
    // Writing to a string does not fail.
    for (at, table) in design.tables.iter().enumerate() {
        let _ = writeln!(out, "  subgraph t{at}[\"{}\"]", label(&table.name));
        for (number, entity) in design.entities.iter().enumerate().filter(|(_, entity)| entity.table == at) {
            let key = format!("{}<br/>{}", label(entity.key.partition.as_str()), label(entity.key.sort.as_str()));
            let _ = writeln!(out, "    e{number}[\"<b>{}</b><br/>{key}\"]", label(&entity.name));
        }
        let _ = writeln!(out, "  end");
    }
    for (number, entity) in design.entities.iter().enumerate() {
        for field in &entity.fields {
            let target = field
                .reference
                .as_ref()
                .and_then(|reference| design.entities.iter().position(|each| each.name == reference.entity));
            if let Some(target) = target {
                let _ = writeln!(out, "  e{number} -->|{}| e{target}", label(&field.name));
            }
        }
    }
    for aggregate in &design.aggregates {
        for projection in &aggregate.projections {
            let _ = writeln!(out, "  e{} -.->|builds| e{projection}", aggregate.events);
        }
    }
    out
}

/// Escapes `#`, which starts a character entity in Mermaid, and quotes, which end a label.
fn label(text: &str) -> String {
    text.replace('#', "#35;").replace('"', "#quot;").replace('{', "#123;").replace('}', "#125;").replace('<', "#lt;")
}

const ROW: usize = 26;
const LEFT: usize = 190;
const COLUMN: usize = 92;
const TOP: usize = 58;

/// One table for each table: a row for each entity, a column for the key and each index, coloured by wall.
pub(super) fn svg(design: &Design) -> String {
    let mut out = String::new();
    for (at, table) in design.tables.iter().enumerate() {
        out += &table_svg(design, at, table);
    }
    out
}

fn table_svg(design: &Design, at: usize, table: &Table) -> String {
    let entities: Vec<_> = design.entities.iter().filter(|entity| entity.table == at).collect();
    let width = LEFT + COLUMN * (table.indexes.len() + 1) + 10;
    let height = TOP + ROW * entities.len() + 12;
    let mut out = format!(
        "<svg class=\"lanes\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
         aria-label=\"The entities of {name} and their indexes\">\n<text class=\"title\" x=\"8\" y=\"22\">{name}</text>\n",
        name = escape(&table.name),
    );
    let columns = std::iter::once("key").chain(table.indexes.iter().map(|index| index.name.as_str()));
    for (column, name) in columns.enumerate() {
        let x = LEFT + COLUMN * column + COLUMN / 2;
        let _ = writeln!(out, "<text class=\"head\" x=\"{x}\" y=\"44\">{}</text>", escape(name));
    }
    for (row, entity) in entities.iter().enumerate() {
        let y = TOP + ROW * row + ROW / 2;
        let _ = writeln!(
            out,
            "<line x1=\"8\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/><a href=\"#{}\"><text x=\"8\" y=\"{}\" class=\"name\">{}</text></a>",
            width - 8,
            super::describe::anchor(&entity.name),
            y + 4,
            escape(&entity.name),
        );
        out += &dot(0, y, entity.wall, false, entity.key.partition.as_str(), entity.key.sort.as_str());
        for mapping in &entity.indexes {
            let (partition, sort) = (mapping.key.partition.as_str(), mapping.key.sort.as_str());
            out += &dot(mapping.index + 1, y, mapping.wall, mapping.when.is_some(), partition, sort);
        }
    }
    out + "</svg>\n"
}

/// A filled dot for an entity in an index, a hollow one if the index is sparse.
fn dot(column: usize, y: usize, wall: Wall, sparse: bool, partition: &str, sort: &str) -> String {
    let x = LEFT + COLUMN * column + COLUMN / 2;
    let class = if sparse { format!("{wall} sparse") } else { wall.to_string() };
    let title = format!("{partition} / {sort}{}", if sparse { " (sparse)" } else { "" });
    format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"7\"><title>{}</title></circle>\n", escape(&title))
}

/// Escapes a text for HTML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
