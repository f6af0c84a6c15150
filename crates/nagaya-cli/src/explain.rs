//! `nagaya explain`: a stored key, an access pattern or a diagnostic code in words.

use std::{fmt::Write as _, io::Write as _, path::PathBuf};

use anyhow::{Context as _, bail};
use nagaya_design::{AccessPattern, Design, Explanation, KeyPart, Query, ResultKind};
use nagaya_dynamodb::{QueryRequest, expression};
use nagaya_store::Query as StoreQuery;
use nagaya_tenancy::{List, list_query, table_specs};
use serde_json::{Value, json};

use super::{Outcome, output::print, pages, source};

/// Explain a stored key, the query that an access pattern sends, or a diagnostic code
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
    /// Show the request that this engine sends too
    #[arg(long, value_enum, value_name = "ENGINE", requires = "access")]
    engine: Option<RequestEngine>,
    /// The value of `{base}` in table names [default: the design's name]
    #[arg(long, value_name = "NAME", env = "DYNAMODB_TABLE_NAME")]
    base: Option<String>,
    /// Print the explanation as JSON
    #[arg(long)]
    json: bool,
}

/// The engines that exist.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RequestEngine {
    Embedded,
    Dynamodb,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let word = args.design.to_string_lossy();
    if pages::is_code(&word) && !args.design.exists() && args.key.is_empty() && args.access.is_none() {
        return explain_code(args, &word);
    }
    if args.key.is_empty() && args.access.is_none() {
        bail!("name a KEY to explain, or an access pattern with --access; see `nagaya explain --help`");
    }
    let Some(design) = source::design(&args.design, &[])? else { return Ok(Outcome::FoundProblem) };
    let base = args.base.clone().unwrap_or_else(|| design.name.clone());
    match &args.access {
        Some(name) => explain_access(args, &design, &base, name),
        None => explain_key(args, &design, &base),
    }
}

/// Prints the page about a diagnostic code.
fn explain_code(args: &Args, code: &str) -> anyhow::Result<Outcome> {
    let Some(page) = pages::page(code) else { bail!("there is no diagnostic {code}") };
    print(args.json, &json!({ "code": code.to_uppercase(), "page": page }), page, true)
}

fn explain_key(args: &Args, design: &Design, base: &str) -> anyhow::Result<Outcome> {
    let parts: Vec<_> = args.key.iter().map(|text| parse_key_part(design, text)).collect();
    let found = design.explain(&parts);
    let json = found.iter().map(|each| explanation_json(design, base, each)).collect();
    let texts: Vec<_> = found.iter().map(|each| explanation_text(design, base, each)).collect();
    let outcome = print(args.json, &json, &texts.join("\n"), !found.is_empty())?;
    if found.is_empty() {
        eprintln!("no entity of {} has the key {}", design.name, args.key.join(" / "));
        eprintln!("help: `nagaya docs {}` lists the keys of the design", args.design.display());
    }
    Ok(outcome)
}

/// `GSI1PK=USER` names its attribute. Other texts are values, even if they contain a `=`.
fn parse_key_part(design: &Design, text: &str) -> KeyPart {
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

fn queried_table(query: &Query, design: &Design, base: &str) -> String {
    let table = table_name(design, &query.table, base);
    query.index.as_ref().map_or(table.clone(), |index| format!("{table} {index}"))
}

fn explanation_text(design: &Design, base: &str, each: &Explanation) -> String {
    let table = table_name(design, &each.table, base);
    let key = each.index.as_ref().map_or_else(|| "key".to_owned(), |index| format!("index {index}"));
    let form = if each.is_former_key { ", in its former form" } else { "" };
    let mut out = format!("{} in {table} ({key}{form}), wall: {}\n", each.entity, each.wall);
    let width = each.templates.iter().map(|(attribute, _)| attribute.len()).max().unwrap_or(0);
    // Writing to a string does not fail.
    for (attribute, template) in &each.templates {
        let _ = writeln!(out, "  {attribute:width$}  {template}");
    }
    let width = each.fields.iter().map(|(field, _)| field.len()).max().unwrap_or(0);
    for (field, value) in &each.fields {
        let invalid = each.invalid_values.iter().find(|(name, _)| name == field);
        let invalid = invalid.map_or_else(String::new, |(_, wanted)| format!("  (not {wanted})"));
        let _ = writeln!(out, "  {field:width$} = {value}{invalid}");
    }
    if !each.reached_by.is_empty() {
        let _ = writeln!(out, "  reached by");
        let width = each.reached_by.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, query) in &each.reached_by {
            let index = query.index.as_ref().map_or_else(String::new, |index| format!("{index}: "));
            let filter = reaching_filter(design, base, each, name);
            let filter = filter.map_or_else(String::new, |filter| format!(", filter {filter}"));
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
                "accessPattern": name,
                "index": query.index,
                "query": query.to_string(),
                "filter": reaching_filter(design, base, each, name),
            })
        })
        .collect();
    json!({
        "entity": each.entity,
        "table": table_name(design, &each.table, base),
        "index": each.index,
        "wall": each.wall.to_string(),
        "formerKey": each.is_former_key,
        "templates": pairs(&each.templates),
        "fields": pairs(&each.fields),
        "invalidValues": pairs(&each.invalid_values),
        "reachedBy": reached,
    })
}

/// The filter that an access pattern reaches a key with, for the tenant of the key.
fn reaching_filter(design: &Design, base: &str, key: &Explanation, access: &str) -> Option<String> {
    let access = design.access_pattern(access)?;
    let tenant = tenant_parameter(design, access);
    let given: Vec<_> = key.fields.iter().filter(|(name, _)| Some(name.as_str()) == tenant).cloned().collect();
    filter_text(sent_query(design, base, access, &given).ok()??)
}

fn filter_text(query: StoreQuery) -> Option<String> {
    query.filter.as_ref().map(expression::describe)
}

/// The parameter that the token gives: the tenant, where the list is one of a tenant.
fn tenant_parameter<'d>(design: &'d Design, access: &AccessPattern) -> Option<&'d str> {
    design.entities[access.entity].implied_tenant(design.wall_of(access))
}

/// The query that a list with these parameters sends to the store; `None`: nothing is sent, because no key can match.
fn sent_query(
    design: &Design,
    base: &str,
    access: &AccessPattern,
    given: &[(String, String)],
) -> anyhow::Result<Option<StoreQuery>> {
    let tenant = tenant_parameter(design, access).unwrap_or("tenant");
    let (of_tenant, others): (Vec<_>, Vec<_>) = given.iter().partition(|(name, _)| name == tenant);
    let list = others.into_iter().fold(List::by(&access.name), |list, (name, value)| list.with(name, value));
    let tenant = of_tenant.first().map_or_else(|| format!("<{tenant}>"), |(_, value)| value.clone());
    Ok(list_query(design, base, &tenant, &list)?)
}

/// The request that the DynamoDB engine sends for a query.
fn dynamodb_request(design: &Design, base: &str, query: StoreQuery) -> anyhow::Result<Option<QueryRequest>> {
    let tables = table_specs(design, base);
    let table = tables.iter().find(|table| table.name == query.table).context("the query has a table of the design")?;
    Ok(QueryRequest::new(&table.name, table, query)?)
}

fn explain_access(args: &Args, design: &Design, base: &str, name: &str) -> anyhow::Result<Outcome> {
    let Some(access) = design.access_pattern(name) else {
        let names: Vec<_> = design.access_patterns.iter().map(|access| access.name.as_str()).collect();
        if names.is_empty() {
            bail!("{} has no access patterns", design.name);
        }
        bail!("{} has no access pattern `{name}`; it has {}", design.name, names.join(", "));
    };
    let parameters = parse_parameters(args, design, access)?;
    let given: Vec<(&str, &str)> = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let missing =
        design.parameters(access).iter().any(|each| each.required && given.iter().all(|(name, _)| *name != each.name));
    let query = if missing {
        design.query_outline(access, given.as_slice())
    } else {
        design.query(access, given.as_slice()).map_err(|unfit| anyhow::anyhow!("{name}: {unfit}"))?
    };
    let sent = sent_query(design, base, access, &parameters)?;
    let filter = sent.clone().and_then(filter_text);
    let request = sent.map(|sent| dynamodb_request(design, base, sent)).transpose()?.flatten();
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
            "accessPattern": name,
            "entity": design.entities[access.entity].name,
            "wall": design.wall_of(access).to_string(),
            "table": table_name(design, &query.table, base),
            "index": query.index,
            "query": query.to_string(),
            "filter": filter,
            "descending": query.descending,
            "limit": query.limit,
            "parameters": parameters,
            "dynamodb": request.as_ref().map(QueryRequest::to_json),
        });
        writeln!(out, "{text:#}")?;
        return Ok(Outcome::Fine);
    }
    write!(out, "{}", access_text(design, access, &query, filter.as_deref(), base))?;
    match (args.engine, request) {
        (Some(RequestEngine::Dynamodb), Some(request)) => {
            writeln!(out, "\nDynamoDB Query\n{:#}", request.to_json())?;
            if request.local_filter.is_some() {
                writeln!(out, "\nThe engine applies the filter itself: DynamoDB accepts none on key attributes.")?;
            }
        }
        (Some(RequestEngine::Embedded), Some(_)) => {
            writeln!(out, "\nThe embedded engine runs this query in the process and sends no request.")?;
        }
        (Some(_), None) => writeln!(out, "\nNothing is sent: no key can match.")?,
        (None, _) => {}
    }
    Ok(Outcome::Fine)
}

/// The values of `--with`. Each must be a parameter of the access pattern, or its tenant.
fn parse_parameters(args: &Args, design: &Design, access: &AccessPattern) -> anyhow::Result<Vec<(String, String)>> {
    let known = design.parameters(access);
    let mut given = Vec::new();
    for text in &args.with {
        let (name, value) = text.split_once('=').with_context(|| format!("--with {text}: write NAME=VALUE"))?;
        if known.iter().all(|each| each.name != name) && tenant_parameter(design, access) != Some(name) {
            let names: Vec<_> = known.iter().map(|each| each.name.as_str()).collect();
            bail!("`{}` has no parameter `{name}`; it has {}", access.name, names.join(", "));
        }
        given.push((name.to_owned(), value.to_owned()));
    }
    Ok(given)
}

fn access_text(design: &Design, access: &AccessPattern, query: &Query, filter: Option<&str>, base: &str) -> String {
    let entity = &design.entities[access.entity].name;
    let gives = match access.returns {
        ResultKind::Many => format!("lists {entity}"),
        ResultKind::One => format!("finds one {entity}"),
        ResultKind::Count => format!("counts {entity}"),
    };
    let mut out = format!("{} {gives}, wall: {}\n", access.name, design.wall_of(access));
    // Writing to a string does not fail.
    if let Some(description) = &access.description {
        let _ = writeln!(out, "  {description}");
    }
    let _ = writeln!(out, "  Query {}\n    {query}", queried_table(query, design, base));
    if let Some(filter) = filter {
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
            let wanted = field.map_or_else(String::new, |field| field.expectation());
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
