//! The server that runs with these settings, if there is one.

mod metrics;
mod public;

use std::{net::SocketAddr, time::Duration};

use nagaya_server::{System, http_agent};
use tokio::task::JoinError;

use self::{
    metrics::{is_ours, values},
    public::PublicAddress,
};
use super::{Check, Finding, trusted};
use crate::serve;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Seconds after which lists and searches are noticeably old; as in the alerts.
const LONG_LAG: f64 = 60.0;

pub(super) async fn examine(args: &serve::Args, systems: &[System], findings: &mut Vec<Finding>) {
    let network = &args.network;
    let (public, address) = (PublicAddress::of(network), network.address());
    let admin =
        network.admin_address().unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], address.port().wrapping_add(1))));
    let admin = format!("http://{}", public::connectable(admin));
    let expected = trusted::by_settings(args, systems);
    let server =
        tokio::task::spawn_blocking(move || {
            let mut findings = examine_server(&public, &admin, expected.as_ref());
            if !findings.iter().any(|finding| finding.check == Check::Running) {
                findings.push(Check::Running.ok(
                    "it is ready, no wall was breached, no projection is stuck, and clients do not see the metrics",
                ));
            }
            findings
        });
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

fn examine_server(public: &PublicAddress, admin: &str, expected: Option<&trusted::Audiences>) -> Vec<Finding> {
    let metrics = match get(&http_agent(TIMEOUT), &format!("{admin}/metrics")) {
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
    if !matches!(get(&http_agent(TIMEOUT), &format!("{admin}/readyz")), Ok((200, _))) {
        findings.push(Check::Running.problem("the server is not ready", "its log says why; see /readyz"));
    }
    findings.extend(trusted::compare(&metrics::trusted_audiences(&metrics), expected));
    findings.extend(findings_in_metrics(&metrics));
    findings.extend(public.examine());
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

/// The status and the body of an answer.
fn get(agent: &ureq::Agent, url: &str) -> Result<(u16, String), ureq::Error> {
    let mut answer = agent.get(url).call()?;
    let body = answer.body_mut().read_to_string()?;
    Ok((answer.status().as_u16(), body))
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
}
