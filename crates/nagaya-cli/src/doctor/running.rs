//! The server that runs with these settings, if there is one.

use std::{net::SocketAddr, time::Duration};

use nagaya_server::{http_agent, without_credentials};
use tokio::task::JoinError;

use super::{Check, Finding};
use crate::serve;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds after which lists and searches are noticeably old; as in the alerts.
const LONG_LAG: f64 = 60.0;

pub(super) async fn examine(args: &serve::Args, findings: &mut Vec<Finding>) {
    let network = &args.network;
    let scheme = if network.has_tls() { "https" } else { "http" };
    let public = network.public_url.clone().unwrap_or_else(|| format!("{scheme}://{}", loopback(network.address())));
    let address = network.address();
    let admin =
        network.admin_address().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], address.port().wrapping_add(1))));
    let admin = format!("http://{}", loopback(admin));
    let server = tokio::task::spawn_blocking(move || examine_server(&public, &admin));
    findings.extend(completed(server.await));
}

/// The findings of a check that has run; that it failed is a problem too.
fn completed(ended: Result<Vec<Finding>, JoinError>) -> Vec<Finding> {
    ended.unwrap_or_else(|error| {
        vec![Check::Running.problem(
            format!("the server could not be asked: {error}"),
            "this is a mistake in the program: report it, and look at /readyz and /metrics yourself",
        )]
    })
}

/// An address that can be connected to.
fn loopback(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

fn examine_server(public: &str, admin: &str) -> Vec<Finding> {
    let metrics = match get(&format!("{admin}/metrics")) {
        Ok((200, metrics)) if is_ours(&metrics) => metrics,
        Ok((status, _)) => {
            return vec![Check::Running.unknown(format!(
                "what answers at {admin} (/metrics: {status}) is not the admin listener of nagaya: name it with --admin-listen"
            ))];
        }
        Err(_) => {
            return vec![Check::Running.unknown(format!("no server answers at {admin}: start it, and run this again"))];
        }
    };
    let mut findings = Vec::new();
    if !matches!(get(&format!("{admin}/readyz")), Ok((200, _))) {
        findings.push(Check::Running.problem("the server is not ready", "its log says why; see /readyz"));
    }
    findings.extend(findings_in_metrics(&metrics));
    let shown = without_credentials(public);
    match get(&format!("{public}/metrics")) {
        Ok((200, metrics)) if is_ours(&metrics) => findings.push(Check::Running.problem(
            format!("{shown}/metrics shows the metrics to everybody"),
            "let the proxy forward to the public address only, and not to the admin listener",
        )),
        Ok(_) => {}
        Err(why) => findings.push(
            Check::Running
                .warning(format!("{shown} does not answer here: {why}"), "verify from elsewhere that clients reach it"),
        ),
    }
    if findings.is_empty() {
        findings.push(
            Check::Running
                .ok("it is ready, no wall was breached, no projection is stuck, and clients do not see the metrics"),
        );
    }
    findings
}

/// What the metrics show.
fn findings_in_metrics(metrics: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (metric, found, remedy) in [
        (
            "nagaya_wall_breaches_total",
            "the store has returned items from behind another wall",
            "a program wrote to the tables without Nagaya: the log names the items",
        ),
        (
            "nagaya_follower_dead_letters",
            "events cannot be applied to a projection",
            "look at `nagaya events dlq list`",
        ),
    ] {
        if values(metrics, metric).any(|value| value > 0.0) {
            findings.push(Check::Running.problem(found, remedy));
        }
    }
    let lag = values(metrics, "nagaya_follower_lag_seconds").fold(0.0, f64::max);
    if lag > LONG_LAG {
        findings.push(Check::Running.warning(
            format!("a projection or a search index is {lag:.0} seconds behind"),
            "the log of the server says why; look at `nagaya events dlq list` too",
        ));
    }
    findings
}

fn get(url: &str) -> Result<(u16, String), ureq::Error> {
    let mut answer = http_agent(TIMEOUT).get(url).call()?;
    let body = answer.body_mut().read_to_string()?;
    Ok((answer.status().as_u16(), body))
}

/// Whether metrics are those of a server of this program.
fn is_ours(metrics: &str) -> bool {
    values(metrics, "nagaya_build_info").next().is_some()
}

/// The values of a metric, one for each combination of its labels.
fn values(metrics: &str, name: &str) -> impl Iterator<Item = f64> {
    let value = move |line: &str| {
        let rest = line.strip_prefix(name)?;
        let rest = if rest.starts_with('{') { &rest[rest.rfind('}')? + 1..] } else { rest };
        rest.trim().split(' ').next()?.parse::<f64>().ok()
    };
    metrics.lines().filter_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_that_panics_is_a_problem() {
        let ended = tokio::spawn(async { panic!("this test wants it") }).await;
        assert_eq!(completed(ended).iter().map(|each| each.state).collect::<Vec<_>>(), [crate::doctor::State::Problem]);
    }

    #[test]
    fn a_projection_that_is_stuck_is_found() {
        let metrics = |lag: u32, letters: u32| {
            format!(
                "nagaya_follower_lag_seconds{{system=\"todo\",follower=\"a\"}} 1\nnagaya_follower_lag_seconds{{system=\"todo\",\
                 follower=\"b\"}} {lag}\nnagaya_follower_dead_letters{{system=\"todo\",follower=\"a\"}} {letters}\n"
            )
        };
        let states =
            |metrics: String| findings_in_metrics(&metrics).iter().map(|each| each.state.name()).collect::<Vec<_>>();
        assert_eq!(states(metrics(60, 0)), [""; 0]);
        assert_eq!(states(metrics(61, 0)), ["warning"]);
        assert_eq!(states(metrics(0, 1)), ["problem"]);
    }

    #[test]
    fn a_metric_has_a_value_for_each_of_its_labels() {
        let metrics = "# TYPE a counter\na_total{system=\"x\"} 2\na_total{system=\"y}\"} 1\na_total_other 9\nb 4\n";
        assert_eq!(values(metrics, "a_total").collect::<Vec<_>>(), [2.0, 1.0]);
        assert_eq!(values(metrics, "b").collect::<Vec<_>>(), [4.0]);
    }
}
