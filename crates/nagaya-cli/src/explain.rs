//! `nagaya explain`: a stored key, an access pattern or a diagnostic code in words.

use std::{fmt::Write as _, io::Write as _, path::PathBuf};

use anyhow::{Context as _, bail};
use nagaya_design::{Access, Design, Explanation, KeyPart, Query, Returns};
use serde_json::{Value, json};

use super::{Outcome, check::EngineName, pages, source};

/// Explain a stored key, the query of an access pattern, or a diagnostic code
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  nagaya explain NG0101\n  nagaya explain design.toml 'TENANT#t1' 'USER#u1'\n  nagaya explain design.toml \
                        GSI1PK=USER GSI1SK=2026-01-31T09:30:00Z\n  nagaya explain design.toml 'TENANT#t1'\n  nagaya \
                        explain design.toml --access audit_between\n  nagaya explain design.toml --access \
                        audit_between --with tenantId=t1 --with from=2026-01-01T00:00:00Z"
)]
pub(super) struct Args {
    /// A design file or a built-in system (a file of that name wins); or a diagnostic code such as NG0101
    #[arg(value_name = "DESIGN|CODE")]
    design: PathBuf,
    /// A partition key, and a sort key if there is one; of the table or of an index, named (`GSI1PK=USER`) or not
    #[arg(value_name = "KEY", num_args = 0..=2)]
    key: Vec<String>,
    /// The access pattern to explain
    #[arg(long, value_name = "NAME", conflicts_with = "key")]
    access: Option<String>,
    /// A parameter of the access pattern (may be given several times)
    #[arg(long, value_name = "NAME=VALUE", requires = "access")]
    with: Vec<String>,
    /// Show the request of this engine too: DynamoDB's JSON or Cosmos DB's SQL
    #[arg(long, value_enum, value_name = "ENGINE", requires = "access")]
    engine: Option<EngineName>,
    /// The value of `{base}` in table names [default: the design's name]
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    base: Option<String>,
    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let word = args.design.to_string_lossy();
    if pages::is_code(&word) && !args.design.exists() && args.key.is_empty() && args.access.is_none() {
        return code(args, &word);
    }
    if args.key.is_empty() && args.access.is_none() {
        bail!("name a KEY to explain, or an access pattern with --access; see `nagaya explain --help`");
    }
    let Some(design) = source::design(&args.design, &[])? else { return Ok(Outcome::FoundProblem) };
    let base = args.base.clone().unwrap_or_else(|| design.name.clone());
    match &args.access {
        Some(name) => access(args, &design, &base, name),
        None => key(args, &design, &base),
    }
}

/// Prints the page about a diagnostic code.
fn code(args: &Args, code: &str) -> anyhow::Result<Outcome> {
    let Some(page) = pages::page(code) else { bail!("there is no diagnostic {code}") };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{:#}", json!({ "code": code.to_uppercase(), "page": page }))?,
        false => out.write_all(page.as_bytes())?,
    }
    Ok(Outcome::Fine)
}

fn key(args: &Args, design: &Design, base: &str) -> anyhow::Result<Outcome> {
    let parts: Vec<_> = args.key.iter().map(|text| part(design, text)).collect();
    let found = design.explain(&parts);
    let mut out = std::io::stdout().lock();
    if args.json {
        let found: Vec<_> = found.iter().map(|each| explanation_json(design, base, each)).collect();
        writeln!(out, "{:#}", Value::from(found))?;
    } else {
        for (at, each) in found.iter().enumerate() {
            let gap = if at > 0 { "\n" } else { "" };
            write!(out, "{gap}{}", explanation_text(design, base, each))?;
        }
    }
    if found.is_empty() {
        eprintln!("no entity of {} has the key {}", design.name, args.key.join(" / "));
        eprintln!("help: `nagaya docs {}` lists all keys", args.design.display());
        return Ok(Outcome::FoundProblem);
    }
    Ok(Outcome::Fine)
}

/// `GSI1PK=USER` names its attribute; anything else is a value, even with a `=` in it.
fn part(design: &Design, text: &str) -> KeyPart {
    let named = text.split_once('=').filter(|(name, _)| {
        design.tables.iter().any(|table| {
            let keys = std::iter::once(&table.key).chain(table.indexes.iter().map(|index| &index.key));
            keys.into_iter().any(|key| key.partition == *name || key.sort == *name)
        })
    });
    match named {
        Some((name, value)) => KeyPart { attribute: Some(name.to_owned()), value: value.to_owned() },
        None => KeyPart { attribute: None, value: text.to_owned() },
    }
}

fn table_name(design: &Design, id: &str, base: &str) -> String {
    let table = design.tables.iter().find(|table| table.id == id);
    table.map_or_else(|| id.to_owned(), |table| table.physical_name(base))
}

fn table_and_index(query: &Query, design: &Design, base: &str) -> String {
    let table = table_name(design, &query.table, base);
    query.index.as_ref().map_or(table.clone(), |index| format!("{table} {index}"))
}

fn explanation_text(design: &Design, base: &str, each: &Explanation) -> String {
    let table = table_name(design, &each.table, base);
    let part = each.index.as_ref().map_or_else(|| "key".to_owned(), |index| format!("index {index}"));
    let form = if each.former { ", in its former form" } else { "" };
    let mut out = format!("{} in {table} ({part}{form}), wall: {}\n", each.entity, each.wall);
    let width = each.templates.iter().map(|(attribute, _)| attribute.len()).max().unwrap_or(0);
    // Writing to a string does not fail.
    for (attribute, template) in &each.templates {
        let _ = writeln!(out, "  {attribute:width$}  {template}");
    }
    let width = each.fields.iter().map(|(field, _)| field.len()).max().unwrap_or(0);
    for (field, value) in &each.fields {
        let doubt = each.doubts.iter().find(|(name, _)| name == field);
        let doubt = doubt.map_or_else(String::new, |(_, wanted)| format!("  (not {wanted})"));
        let _ = writeln!(out, "  {field:width$} = {value}{doubt}");
    }
    if !each.reached_by.is_empty() {
        let _ = writeln!(out, "  reached by");
        let width = each.reached_by.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, query) in &each.reached_by {
            let index = query.index.as_ref().map_or_else(String::new, |index| format!("{index}: "));
            let filter = query.filter.as_ref().map_or_else(String::new, |filter| format!(", filter {filter}"));
            let _ = writeln!(out, "    {name:width$}  {index}{query}{filter}");
        }
    }
    out
}

fn explanation_json(design: &Design, base: &str, each: &Explanation) -> Value {
    let pairs = |pairs: &[(String, String)]| -> Value {
        pairs.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect()
    };
    let reached: Vec<_> = each
        .reached_by
        .iter()
        .map(|(name, query)| {
            json!({
                "access": name,
                "index": query.index,
                "query": query.to_string(),
                "filter": query.filter.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    json!({
        "entity": each.entity,
        "table": table_name(design, &each.table, base),
        "index": each.index,
        "wall": each.wall.to_string(),
        "former": each.former,
        "templates": pairs(&each.templates),
        "fields": pairs(&each.fields),
        "doubts": pairs(&each.doubts),
        "reachedBy": reached,
    })
}

fn access(args: &Args, design: &Design, base: &str, name: &str) -> anyhow::Result<Outcome> {
    let Some(access) = design.access(name) else {
        let names: Vec<_> = design.accesses.iter().map(|access| access.name.as_str()).collect();
        if names.is_empty() {
            bail!("{} has no access patterns", design.name);
        }
        bail!("{} has no access pattern `{name}`; it has {}", design.name, names.join(", "));
    };
    let given = parameters(args, design, access)?;
    let given: Vec<(&str, &str)> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let missing =
        design.parameters(access).iter().any(|each| each.required && given.iter().all(|(name, _)| *name != each.name));
    let query = if missing {
        design.query_outline(access, given.as_slice())
    } else {
        design.query(access, given.as_slice()).map_err(|unfit| anyhow::anyhow!("{name}: {unfit}"))?
    };
    let table = table_name(design, &query.table, base);
    let mut out = std::io::stdout().lock();
    if args.json {
        let parameters: Vec<_> = design
            .parameters(access)
            .into_iter()
            .map(|each| {
                json!({
                    "name": each.name, "field": each.field, "required": each.required, "fromToken": each.from_token,
                })
            })
            .collect();
        let text = json!({
            "access": name,
            "entity": design.entities[access.entity].name,
            "wall": design.wall_of(access).to_string(),
            "table": table,
            "index": query.index,
            "query": query.to_string(),
            "filter": query.filter.as_ref().map(ToString::to_string),
            "descending": query.descending,
            "limit": query.limit,
            "parameters": parameters,
            "dynamodb": query.dynamodb(&table),
            "cosmos": query.cosmos(),
        });
        writeln!(out, "{text:#}")?;
        return Ok(Outcome::Fine);
    }
    write!(out, "{}", access_text(design, access, &query, base))?;
    match args.engine {
        Some(EngineName::Dynamodb) => writeln!(out, "\nDynamoDB Query\n{:#}", query.dynamodb(&table))?,
        Some(EngineName::Cosmos) => writeln!(out, "\nCosmos DB\n{}", query.cosmos())?,
        Some(EngineName::Embedded) => writeln!(out, "\nThe embedded engine takes the query as it is.")?,
        None => {}
    }
    Ok(Outcome::Fine)
}

/// The values of `--with`, held to the pattern's parameters.
fn parameters(args: &Args, design: &Design, access: &Access) -> anyhow::Result<Vec<(String, String)>> {
    let known = design.parameters(access);
    let mut given = Vec::new();
    for text in &args.with {
        let (name, value) = text.split_once('=').with_context(|| format!("--with {text}: write NAME=VALUE"))?;
        if known.iter().all(|each| each.name != name) {
            let names: Vec<_> = known.iter().map(|each| each.name.as_str()).collect();
            bail!("`{}` has no parameter `{name}`; it has {}", access.name, names.join(", "));
        }
        given.push((name.to_owned(), value.to_owned()));
    }
    Ok(given)
}

fn access_text(design: &Design, access: &Access, query: &Query, base: &str) -> String {
    let entity = &design.entities[access.entity].name;
    let gives = match access.returns {
        Returns::Many => format!("lists {entity}"),
        Returns::One => format!("finds one {entity}"),
        Returns::Count => format!("counts {entity}"),
    };
    let mut out = format!("{} {gives}, wall: {}\n", access.name, design.wall_of(access));
    // Writing to a string does not fail.
    if let Some(description) = &access.description {
        let _ = writeln!(out, "  {description}");
    }
    let _ = writeln!(out, "  Query {}\n    {query}", table_and_index(query, design, base));
    if let Some((name, value)) = query.discriminator_filter() {
        let _ = writeln!(out, "    filter {name} = '{value}'");
    }
    if let Some(filter) = &query.filter {
        let _ = writeln!(out, "    filter {filter}");
    }
    if !query.projection.is_empty() {
        let _ = writeln!(out, "    only {}", query.projection.join(", "));
    }
    let order = if query.descending { "descending" } else { "ascending" };
    let _ = writeln!(out, "    {order}, pages of {}", query.limit);
    let parameters = design.parameters(access);
    if !parameters.is_empty() {
        let _ = writeln!(out, "  parameters");
        let width = parameters.iter().map(|each| each.name.len()).max().unwrap_or(0);
        for each in &parameters {
            let field = design.entities[access.entity].field(&each.field);
            let wanted = field.map_or_else(String::new, |field| field.wanted());
            let note = match (each.from_token, each.required, each.name.as_str()) {
                (true, ..) => format!("from the token's claim `{}`, never from the request", design.tenant.claim),
                (false, false, "from") => format!("optional, inclusive: {wanted}"),
                (false, false, "to") => format!("optional, exclusive: {wanted}"),
                _ => wanted,
            };
            let _ = writeln!(out, "    {:width$}  {note}", each.name);
        }
    }
    out
}
