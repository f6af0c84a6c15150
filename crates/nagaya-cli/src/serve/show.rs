//! The banner: the URLs of the APIs and of their documentation, and a token.

use std::{
    borrow::Cow,
    fmt::Write as _,
    io::{IsTerminal as _, Write as _},
    net::SocketAddr,
    time::Duration,
};

use nagaya_design::{Design, Role};
use nagaya_server::{Claims, Grant, LocalIssuer, System};
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
    let tokens = served.iter().map(|each| issuer.map(|issuer| issue_token(issuer, &each.system)).transpose());
    let tokens = tokens.collect::<anyhow::Result<Vec<_>>>()?;
    // The server runs even if nobody can see this.
    let text = text(args, url, admin, served, &tokens, std::io::stderr().is_terminal());
    let _ = write!(std::io::stderr().lock(), "{text}");
    // Last: a program that reads this may stop the process at once.
    if args.json {
        let systems = served.iter().zip(&tokens).map(|(each, token)| json(url, each, token.as_deref()));
        let all = json!({ "url": url, "admin": format!("http://{admin}"), "systems": systems.collect::<Vec<_>>() });
        writeln!(std::io::stdout().lock(), "{all}")?;
    }
    Ok(())
}

fn json(url: &str, served: &Served, token: Option<&str>) -> Json {
    let Served { system, mount, .. } = served;
    json!({
        "name": system.name,
        "api": format!("{url}{mount}{}", system.design.http_prefix),
        "docs": format!("{url}{mount}/docs"),
        "openapi": format!("{url}{mount}/openapi.json"),
        "token": token,
    })
}

/// The banner. A token is shown on a terminal alone: everything else that reads the standard error keeps it, such as logs.
fn text(
    args: &Args,
    url: &str,
    admin: SocketAddr,
    served: &[Served],
    tokens: &[Option<String>],
    is_terminal: bool,
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
    if let (Some(Served { system, given, mount, .. }), Some(Some(token))) = (served.first(), tokens.first()) {
        let tenant = demo_tenant(&system.design);
        if is_terminal {
            let name = &system.name;
            let _ = writeln!(out, "\n  A token for {name} as tenant `{tenant}`, valid for 24 hours:\n\n{token}\n");
        }
        if let Some(path) = first_list(&system.design) {
            let call = format!("{url}{mount}{}{path}", system.design.http_prefix);
            let _ = writeln!(out, "  curl -H \"Authorization: Bearer $TOKEN\" {call}");
        }
        // No other process has the keys of a server in memory.
        if args.store.kind != StoreKind::Memory {
            let role = full_role(&system.design).map(|role| format!(" --role {}", quoted(role))).unwrap_or_default();
            let data = args.store.data.display().to_string();
            let (name, tenant, data) = (quoted(given), quoted(&tenant), quoted(&data));
            let _ = writeln!(
                out,
                "\n  {}, for any system, tenant and role:\n\n  TOKEN=$(nagaya token --system {name} --tenant \
                 {tenant}{role} --data {data})\n",
                if is_terminal { "Another token" } else { "A token" },
            );
        }
    }
    out
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
