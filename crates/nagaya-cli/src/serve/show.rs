//! The banner: the URLs of the APIs and of their documentation, and a token.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
    net::SocketAddr,
    time::Duration,
};

use nagaya_design::{Design, Role};
use nagaya_server::{Claims, Grant, LocalIssuer, System, observe::LogFormat};
use serde_json::{Value as Json, json};

use super::{Args, StoreKind, listen::Served};
use crate::seed::tenants;

/// The user that the first token is for.
const USER: &str = "demo";
/// How long the first token is valid.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Prints what is served.
pub(super) fn serving(
    args: &Args,
    url: &str,
    admin: SocketAddr,
    served: &[Served],
    issuer: Option<&LocalIssuer>,
) -> anyhow::Result<()> {
    // A token is for a person at a terminal: everything else that reads the standard error keeps it, such as logs.
    let is_read_by_a_person = std::io::stderr().is_terminal() && args.logs.format() == LogFormat::Text;
    let token = match (issuer, served.first()) {
        (Some(issuer), Some(first)) if is_read_by_a_person => Some(issue_token(issuer, &first.system)?),
        _ => None,
    };
    // The server runs even if nobody can see this.
    let text = text(args, url, admin, served, token.as_deref(), issuer.is_some());
    let _ = write!(std::io::stderr().lock(), "{text}");
    // Last: a program that reads this may stop the process at once.
    if args.json {
        let systems = served.iter().map(|each| json(args, url, each, issuer.is_some()));
        let all = json!({ "url": url, "admin": format!("http://{admin}"), "systems": systems.collect::<Vec<_>>() });
        writeln!(std::io::stdout().lock(), "{all}")?;
    }
    Ok(())
}

fn json(args: &Args, url: &str, served: &Served, is_development: bool) -> Json {
    let Served { system, mount, .. } = served;
    let command = is_development.then(|| token_command(args, served)).flatten();
    json!({
        "name": system.name,
        "api": format!("{url}{mount}{}", system.design.http_prefix),
        "docs": format!("{url}{mount}/docs"),
        "openapi": format!("{url}{mount}/openapi.json"),
        "tokenCommand": command,
    })
}

/// The banner.
fn text(
    args: &Args,
    url: &str,
    admin: SocketAddr,
    served: &[Served],
    token: Option<&str>,
    is_development: bool,
) -> String {
    let mut out = String::new();
    let wide = served.iter().map(|each| each.system.name.len()).max().unwrap_or(0);
    // Writing to a text does not fail.
    let _ = writeln!(out, "nagaya {} on {}\n", env!("CARGO_PKG_VERSION"), args.store.describe());
    for Served { system, mount, .. } in served {
        let name = &system.name;
        let _ = writeln!(out, "  {name:wide$}  API   {url}{mount}{}", system.design.http_prefix);
        let _ = writeln!(out, "  {:wide$}  docs  {url}{mount}/docs", "");
    }
    let _ = writeln!(out, "\n  health, readiness and metrics: http://{admin}");
    if let (Some(first), true) = (served.first(), is_development) {
        let Served { system, mount, .. } = first;
        let (name, tenant) = (&system.name, demo_tenant(&system.design));
        if let Some(token) = token {
            let _ = writeln!(out, "\n  A token for {name} as tenant `{tenant}`, valid for 24 hours:\n\n{token}\n");
        }
        if let Some(path) = first_list(&system.design) {
            let call = format!("{url}{mount}{}{path}", system.design.http_prefix);
            let _ = writeln!(out, "  curl -H \"Authorization: Bearer $TOKEN\" {call}");
        }
        if let Some(command) = token_command(args, first) {
            let command = command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
            let another = if token.is_some() { "Another token" } else { "A token" };
            let _ = writeln!(out, "\n  {another}, for any system, tenant and role:\n\n  TOKEN=$({command})\n");
        }
    }
    out
}

/// The command that prints a token of a user who may do everything on the tenant's side of the walls; `None` for a server in
/// memory, whose keys no other process has.
fn token_command(args: &Args, served: &Served) -> Option<Vec<String>> {
    let Served { system, given, .. } = served;
    let tenant = demo_tenant(&system.design);
    let mut command = vec!["nagaya", "token", "--system", given, "--tenant", &tenant];
    command.extend(full_role(&system.design).into_iter().flat_map(|role| ["--role", role]));
    let data = args.store.data.display().to_string();
    command.extend(["--data", &data]);
    (args.store.kind != StoreKind::Memory).then(|| command.into_iter().map(str::to_owned).collect())
}

/// A token of a user who may do everything on the tenant's side of the walls.
fn issue_token(issuer: &LocalIssuer, system: &System) -> anyhow::Result<String> {
    let design = &system.design;
    let tenant = demo_tenant(design);
    let roles: Vec<String> = full_role(design).map(str::to_owned).into_iter().collect();
    let grant = Grant {
        audience: &system.name,
        claims: &Claims::from_design(design),
        user: USER,
        tenant: Some(&tenant),
        roles: &roles,
        member_of: std::slice::from_ref(&tenant),
        ttl: DAY,
    };
    Ok(issuer.issue(&grant)?)
}

/// The first role that permits everything on the tenant's side of the walls.
fn full_role(design: &Design) -> Option<&str> {
    let all = |role: &&Role| !role.operator && role.may.iter().any(|may| may.entity.is_none() && may.verb.is_none());
    design.roles.iter().find(all).map(|role| role.name.as_str())
}

/// A word, quoted for a shell.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:@".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

/// The tenant that the first token is for: the one that `nagaya seed` fills first.
fn demo_tenant(design: &Design) -> String {
    tenants::names(design, 1).pop().unwrap_or_else(|| USER.to_owned())
}

/// A list without required parameters.
fn first_list(design: &Design) -> Option<&str> {
    let open = |access: &&nagaya_design::AccessPattern| {
        let needed = |parameter: &nagaya_design::AccessParameter| parameter.required && !parameter.from_token;
        design.wall_of(access) == nagaya_design::Wall::Key && !design.parameters(access).iter().any(needed)
    };
    design.access_patterns.iter().filter(open).find_map(|access| access.path.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pasted_is_one_word() {
        assert_eq!(quoted("nagaya-data/x.toml"), "nagaya-data/x.toml");
        assert_eq!(quoted("My data"), "'My data'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
